# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Keras trainings as pods, and what they have used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from benchmarks.cluster.site import Site
from tf_malleable.cluster import names

NODE_CPUS: Final = 1.5
"""Room for a worker with a CPU, and for a coordinator."""
_TRAINEE: Final = ("-m", "benchmarks.cluster.trainee")


def train(
    here: Site,
    name: str,
    epochs: int,
    workers: tuple[int, int],
    cpus: int = 1,
    options: Sequence[str] = (),
) -> float:
    """Create the job of a training; return when.

    Args:
        here: Where.
        name: Of the job.
        epochs: How long it is.
        workers: The fewest and the most.
        cpus: The most of a worker.
        options: More words for the trainee.
    """
    return here.submit(name, [*_TRAINEE, "--epochs", str(epochs), *options], workers, cpus)


def begun_at(notes: Sequence[dict[str, Any]]) -> float:
    """Return when a process has begun its first step."""
    return float(next(each["at"] for each in notes if each["what"] == "begin"))


def ended_at(notes: Sequence[dict[str, Any]]) -> float:
    """Return when a process has ended its last step."""
    return float(next(each["at"] for each in notes if each["what"] == "trained"))


def used(here: Site) -> float:
    """Return the CPU time of all pods, once they have ended."""
    here.wait(lambda: all(p["status"]["phase"] != "Running" for p in here.api.list(names.PODS)))
    return float(here.tell("cpu_seconds"))
