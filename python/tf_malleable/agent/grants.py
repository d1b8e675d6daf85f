# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Applies the controller's grants to this process."""

from __future__ import annotations

from tf_malleable.api.schema.grant_line import GrantLine
from tf_malleable.runtime import cpuset, library, limits


def make_room(grant: GrantLine) -> None:
    """Begin to apply a grant: lower the limits that are above its number of CPUs."""
    if grant.cpus:
        cpuset.make_room(len(grant.cpus))


def carry_out(grant: GrantLine) -> bool:
    """Confine the process, except for the calling thread, to its granted CPUs.

    If the controller confines the process itself, only the limits are set. If the job
    has lent all its CPUs, it is asleep and nothing changes.

    Returns:
        False if the process may use none of these CPUs.
    """
    try:
        if grant.cpus and grant.confined:
            cpuset.limit_to(len(grant.cpus))
        elif grant.cpus:
            cpuset.confine_others(grant.cpus)
    except OSError:
        return False
    return True


def follow(grant: GrantLine) -> None:
    """Confine the calling thread too, after the grant has been acknowledged."""
    if grant.cpus and not grant.confined:
        cpuset.confine_caller(grant.cpus)


def is_settled(within: float) -> bool:
    """Return whether no pool has more active workers than its limit; wait up to `within` s."""
    return library.backend() is None or limits.wait_settled(within)
