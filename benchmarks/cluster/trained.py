# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Keras trainings as pods, and what they have used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.cluster.site import Site
from tf_malleable.cluster import resource_names

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
        name: Name of the job.
        epochs: How long it is.
        workers: The fewest and the most.
        cpus: The most of a worker.
        options: More words for the trainee.
    """
    return here.submit(name, [*_TRAINEE, "--epochs", str(epochs), *options], workers, cpus)


def told(notes: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Return what the processes of a training have noted, as of one: any may come or go.

    Args:
        notes: Of each process.
    """
    every = [each for one in notes for each in one]

    def times(what: str) -> list[float]:
        return [each["at"] for each in every if each["what"] == what]

    epochs: dict[int, float] = {}
    for each in every:
        if each["what"] == "epoch":
            epochs[each["number"]] = min(each["at"], epochs.get(each["number"], each["at"]))
    ends = [each for each in every if each["what"] == "end"]
    return {
        "begin": min(times("begin")),
        "end": max(times("trained")),
        "epochs": sorted(epochs.values()),
        "accuracy": ends[0]["accuracy"],
        "weights": sorted({each["weights"] for each in ends}),
        "processes": len(notes),
    }


def used(here: Site) -> float:
    """Return the CPU time of all pods, once they have ended."""
    here.wait(
        lambda: all(p["status"]["phase"] != "Running" for p in here.api.list(resource_names.PODS))
    )
    return float(here.tell("cpu_seconds"))
