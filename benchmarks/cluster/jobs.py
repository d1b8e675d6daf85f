# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A long and a short training on two nodes, with fixed workers and as the operator decides."""

from __future__ import annotations

from typing import Any, Final

from benchmarks.cluster.site import site
from benchmarks.cluster.trained import NODE_CPUS, told, train, used

LONG: Final = "long"
SHORT: Final = "short"
_PART: Final = 1 / 3


def measure(way: str, epochs: int) -> dict[str, Any]:
    """Train both in one of the ways; return plain data.

    Args:
        way: A name of JOBS.
        epochs: Epochs of the long one.

    Raises:
        BenchmarkError: One does not train.
    """
    lengths = {SHORT: max(1, round(epochs * _PART)), LONG: epochs}
    workers = {"split": (1, 1), "queue": (2, 2), "operator": (1, 2)}[way]
    with site() as here:
        for node in ("a", "b"):
            here.tell("add_node", name=node, cpus=NODE_CPUS)
        submitted = {}
        for name, length in lengths.items():
            submitted[name] = train(here, name, length, workers)
            if way == "queue":
                here.finish(name, length)
        for name, length in lengths.items():
            here.finish(name, length)
        found = {
            name: {
                "submitted": submitted[name],
                **told(here.notes(name)),
                "rescales": here.status(name)["rescales"],
            }
            for name in lengths
        }
        return {"jobs": found, "cpu_seconds": used(here)}
