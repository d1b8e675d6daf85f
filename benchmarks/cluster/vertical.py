# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""From a change of a job's CPUs to thread limits that have settled in its worker."""

from __future__ import annotations

import itertools
import time
from typing import Final

from benchmarks.cluster.site import Site, site
from benchmarks.cluster.trained import train
from tf_malleable.cluster import resource_names

_NAME: Final = "digits"
# Not always at the same moment of what looks again and again.
_PAUSES_SECONDS: Final = (0.61, 0.653, 0.787, 0.921)
_NODE_CPUS: Final = 2.5
_ENDLESS: Final = 1_000_000


def measure(changes: int) -> list[float]:
    """Return the seconds from each change to where it had settled.

    Raises:
        BenchmarkError: One does not.
    """
    with site() as here:
        here.tell("add_node", name="a", cpus=_NODE_CPUS)
        train(here, _NAME, _ENDLESS, (1, 1), cpus=2, options=("--watch",))
        here.wait(lambda: _settled(here, 2, 0.0))
        here.wait(lambda: here.settled(_NAME, 1))
        found = []
        for number, pause in zip(range(changes), itertools.cycle(_PAUSES_SECONDS), strict=False):
            time.sleep(pause)
            cpus = 1 + number % 2
            asked = time.time()
            # Both, for what the policy would make of more is another question.
            wanted = {"min": cpus, "max": cpus}
            here.api.patch(resource_names.JOBS, _NAME, {"spec": {"workers": {"cpu": wanted}}})
            at = here.wait(lambda cpus=cpus, asked=asked: _settled(here, cpus, asked))
            found.append(at - asked)
        return found


def _settled(here: Site, threads: int, since: float) -> float | None:
    """Return when this limit had settled, if it has."""
    notes = here.notes(_NAME)
    found = [e for e in (notes[0] if notes else ()) if e["what"] == "settled" and e["at"] >= since]
    return found[-1]["at"] if found and found[-1]["threads"] == threads else None
