# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How the trainings of a workload are started: as people do it without us, and with us."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.common.children import clean_environment
from benchmarks.common.trainings import Training

# What users start; it takes a little longer than the package's own way to start it.
TFM: Final = str(Path(sys.executable).with_name("tfm"))


@dataclass(frozen=True)
class Slot:
    """A place for one training at a time.

    Attributes:
        prefix: Words before the training's command.
        environment: Variables added to its environment.
    """

    prefix: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Configuration:
    """A way to run trainings side by side.

    Attributes:
        name: Name for people.
        slots: Places; a training starts when it has arrived and one of them is free; None: at once.
        policy: Policy of the controller to start for it; None: stock TensorFlow.
        again: Whether the controller has run all these trainings once before, and so knows them.
    """

    name: str
    slots: tuple[Slot, ...] | None = None
    policy: str | None = None
    again: bool = False


Command = Callable[[Training, Slot, Configuration], list[str]]
"""Returns what to start for a training."""

TOGETHER: Final = Configuration("all at once")
IN_SEQUENCE: Final = Configuration("one after the other", slots=(Slot(),))
STATIC: Final = Configuration(
    "static split",
    slots=tuple(
        Slot(
            prefix=("taskset", "-c", str(cpu)),
            environment={"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"},
        )
        for cpu in sorted(os.sched_getaffinity(0))
    ),
)
BASELINES: Final = (TOGETHER, IN_SEQUENCE, STATIC)


def controlled(policy: str, *, again: bool = False) -> Configuration:
    """Return the configuration in which a controller with this policy decides."""
    return Configuration(policy + ", again" * again, policy=policy, again=again)


def command(training: Training, slot: Slot, configuration: Configuration) -> list[str]:
    """Return what to start for a training on this machine, outside of containers."""
    program = [*slot.prefix, *training.command]
    if configuration.policy is None or training.joins:
        return program
    return [TFM, "run", "--name", training.name, "--", *program]


def environment(slot: Slot = Slot(), socket: Path | None = None) -> dict[str, str]:
    """Return the environment of a training, or of the controller: a clean one."""
    ours = {} if socket is None else {"TF_MALLEABLE_SOCKET": str(socket)}
    return clean_environment({**slot.environment, **ours})
