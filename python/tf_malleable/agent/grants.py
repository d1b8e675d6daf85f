# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Grants as they come from the controller, and carrying them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard, get_args

from tf_malleable.model import Cpuset, JobState
from tf_malleable.runtime import cpuset, library, limits


@dataclass(frozen=True)
class Grant:
    """One line of the stream of grants.

    Attributes:
        serial: To acknowledge it with.
        state: Of the job.
        cpus: The CPUs it may use.
        lent: CPUs of its own that others may use now.
        confined: The controller confines the job itself, as a container; what is left
            to do here are the limits.
    """

    serial: int
    state: JobState
    cpus: Cpuset
    lent: Cpuset
    confined: bool = False

    @classmethod
    def read(cls, line: Mapping[str, Any]) -> Grant:
        """Return the grant that this line says.

        Raises:
            ValueError: It says none.
        """
        serial, state = line.get("serial"), line.get("state")
        confined = line.get("confined", False)
        if not _is_number(serial) or not _is_state(state) or not isinstance(confined, bool):
            raise ValueError(f"a line that is no grant: {line!r}")
        return cls(serial, state, _cpus(line, "cpus"), _cpus(line, "lent"), confined)


def _cpus(line: Mapping[str, Any], name: str) -> Cpuset:
    cpus = line.get(name)
    if not isinstance(cpus, list) or not all(map(_is_number, cpus)):
        raise ValueError(f"a line that is no grant: {line!r}")
    return frozenset(cpus)


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_state(value: object) -> TypeGuard[JobState]:
    return value in get_args(JobState)


def make_room(grant: Grant) -> None:
    """Begin to carry out a grant: let no more tasks start than may run at its end."""
    if grant.cpus:
        cpuset.make_room(len(grant.cpus))


def carry_out(grant: Grant) -> bool:
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


def follow(grant: Grant) -> None:
    """Confine this thread as well, once that has been told."""
    if grant.cpus and not grant.confined:
        cpuset.confine_caller(grant.cpus)


def is_settled(within: float) -> bool:
    """Return whether no pool runs more workers than its limit, waiting so many seconds."""
    return library.backend() is None or limits.wait_settled(within)
