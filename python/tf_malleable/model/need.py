# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Need and supply of resources other than cores: memory, GPUs, number of jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Basis = Literal["declared", "learned", "unknown"]
Lack = Literal["memory", "gpus", "jobs", "memory quota", "gpu quota"]


@dataclass(frozen=True)
class Need:
    """A job's need of resources other than cores.

    Attributes:
        mem: Expected peak memory of the job, in bytes.
        basis: Origin of `mem`: declared by the user, learned from earlier runs of the command,
            or an assumption.
        used: Memory that the job uses now, in bytes.
        gpus: Number of GPUs that the job waits for, or has.
    """

    mem: float = 0.0
    basis: Basis = "unknown"
    used: float = 0.0
    gpus: int = 0


@dataclass(frozen=True)
class Supply:
    """Supply of resources other than cores.

    Attributes:
        mem: Memory that new processes could use now without swapping, in bytes; None if
            no job has to wait for memory.
        strained: Whether processes of this host currently wait for memory.
        gpus: Number of GPUs shared out, including those in use.
        most_jobs: Limit of jobs that have started and not ended; None for no limit.
    """

    mem: float | None = None
    strained: bool = False
    gpus: int = 0
    most_jobs: int | None = None


UNLIMITED = Supply()
