# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One training with one worker, with two, and with a second one that comes on its way."""

from __future__ import annotations

import time
from typing import Any, Final

from benchmarks.cluster.site import Site, site
from benchmarks.cluster.trained import NODE_CPUS, told, train, used

_NAME: Final = "digits"
_WORKERS: Final = {"static-1": (1, 1), "static-2": (2, 2), "grows": (1, 2)}
_PART: Final = 1 / 3


def measure(way: str, epochs: int) -> dict[str, Any]:
    """Train in one of the ways; return plain data.

    Raises:
        BenchmarkError: It does not train.
    """
    with site() as here:
        here.tell("add_node", name="a", cpus=NODE_CPUS)
        here.tell("add_node", name="b", cpus=NODE_CPUS, cordoned=way != "static-2")
        submitted = train(here, _NAME, epochs, _WORKERS[way])
        grown = _grow(here, _PART) if way == "grows" else {}
        here.finish(_NAME, epochs)
        found = told(here.notes(_NAME))
        found["rescales"] = here.status(_NAME)["rescales"]
        return {"submitted": submitted, **found, "cpu_seconds": used(here), **grown}


def _grow(here: Site, part: float) -> dict[str, float]:
    """Uncordon the second node at a part of the training; return when, and when it joined."""

    def is_there() -> bool:
        said = here.coordinator(_NAME)
        return said is not None and (said["steps_done"] or 0) >= part * (said["steps_total"] or 1e9)

    here.wait(is_there, 600.0, look=0.2)
    asked = time.time()
    here.tell("uncordon", name="b")
    said = here.wait(lambda: here.settled(_NAME, 2), look=0.2)
    joined = [each["at"] for each in said["rescales"] if each["at"] > asked]
    return {"uncordoned": asked, "joined": min(joined)}
