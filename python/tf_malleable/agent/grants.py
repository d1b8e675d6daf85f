# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How a process carries out the grants that come from the controller."""

from __future__ import annotations

from tf_malleable.api.grant_line import GrantLine
from tf_malleable.runtime import cpuset, library, limits


def make_room(grant: GrantLine) -> None:
    """Begin to carry out a grant: let no more tasks start than may run at its end."""
    if grant.cpus:
        cpuset.make_room(len(grant.cpus))


def carry_out(grant: GrantLine) -> bool:
    """Confine the process, but for this thread, to what it is granted.

    One that the controller confines has its limits set to the number of CPUs. A job
    that has lent all its CPUs keeps what it has: it is asleep.

    Returns:
        False if that cannot be: the process may use none of these CPUs.
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
    """Confine this thread as well, once that has been told."""
    if grant.cpus and not grant.confined:
        cpuset.confine_caller(grant.cpus)


def is_settled(within: float) -> bool:
    """Return whether no pool runs more workers than its limit, waiting so many seconds."""
    return library.backend() is None or limits.wait_settled(within)
