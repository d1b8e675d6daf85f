# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Weights of the jobs' CPU time, by their grants. Pure.

A lender keeps its CPUs, and others compute there: the kernel lets it preempt them once it wakes up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tf_malleable.model import Grant

STANDS_BACK: Final = 0.0
"""Weight of a job that whatever wakes up on its CPUs is to preempt."""

# Multiples of the usual weight, by core. Measured with two cores (see docs/benchmarks/lending.md):
# beside ten busy sessions, 10 leaves a job 0.8 of its core, and 16 more than 0.95. What is no job,
# such as a shell or a thread of the kernel, is then late by 25 ms when jobs compute everywhere.
_OF_A_CORE: Final = 16.0
LIGHT: Final = 1 / _OF_A_CORE
"""Weight, for each core, of a borrower that must not be left without any CPU time: the usual one of
Linux, as a part of that of a core."""


def core_weight(most: float, cpus: int) -> float:
    """Return the weight of a core, so that a job with all cores has its weight in proportion.

    Args:
        most: Highest weight that a job can have, as a multiple of the usual one.
        cpus: Number of CPUs of the host.
    """
    return min(_OF_A_CORE, most / cpus)


def weights(grants: Mapping[str, Grant]) -> dict[str, float]:
    """Return the weight of each job that has cores, in units of the weight of a core.

    A job weighs as much as the cores that it has, lent ones included. While some of those it
    uses are borrowed, it weighs LIGHT times that; while all are, STANDS_BACK. A core that is lent
    on stays borrowed, if its first lender uses it.

    Args:
        grants: Grants of all jobs.
    """
    lent = frozenset[int]().union(*(grant.lent for grant in grants.values()))
    shared = frozenset[int]().union(*(grant.cpus & grant.lent for grant in grants.values()))
    found = {}
    for job, grant in grants.items():
        if grant:
            used, unused = grant.cpus - grant.lent, grant.lent - grant.cpus
            borrowed = (used & lent) | (unused & shared)
            usual = float(len(grant.own))
            lighter = STANDS_BACK if borrowed >= grant.cpus else LIGHT * usual
            found[job] = lighter if borrowed else usual
    return found
