# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What jobs need beside cores, and what there is of it: memory, GPUs, a number of jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Basis = Literal["declared", "learned", "unknown"]
Lack = Literal["memory", "gpus", "jobs"]


@dataclass(frozen=True)
class Need:
    """What a job needs beside cores.

    Attributes:
        mem: Memory that it is expected to use at most, in bytes.
        basis: Where `mem` is from: its user, earlier runs of its command, or an assumption.
        used: Memory that it uses now, in bytes.
        gpus: Number of GPUs that it waits for, or has.
    """

    mem: float = 0.0
    basis: Basis = "unknown"
    used: float = 0.0
    gpus: int = 0


@dataclass(frozen=True)
class Supply:
    """What there is for jobs beside cores.

    Attributes:
        mem: Memory that new processes could use now without swapping, in bytes; None if
            memory keeps no job waiting.
        strained: Processes of this host wait for memory right now.
        gpus: Number of GPUs shared out, those in use included.
        most_jobs: How many jobs may have been started and not ended; None for no limit.
    """

    mem: float | None = None
    strained: bool = False
    gpus: int = 0
    most_jobs: int | None = None


UNLIMITED = Supply()
