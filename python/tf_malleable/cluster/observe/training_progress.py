# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Training progress, as a job's coordinator reports it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Final

from tf_malleable.elastic.membership.rescale_ledger import Rescale

_LARGEST: Final = 2**63 - 1
# The last second of the year 9999, beyond which no timestamp of the API can be written.
_LAST_SECOND: Final = 253402300799.0


@dataclass(frozen=True)
class MemberSeen:
    """A process of a training.

    Attributes:
        uid: Uid of a worker's pod; for a server, the id that it reports itself.
        role: ``"worker"`` or ``"server"``.
        takes_part: True if it is in the current generation.
        leaving: True if it wants to leave.
        shards: Number of shards of each batch that it computes.
    """

    uid: str
    role: str
    takes_part: bool
    leaving: bool
    shards: int


@dataclass(frozen=True)
class TrainingProgress:
    """Progress of a training.

    Attributes:
        phase: Phase of the coordinator, such as ``"steady"``.
        generation: Number of the current generation; 0 before the first.
        step: Number of the next step.
        steps_done: Number of steps done.
        steps_total: Number of steps at the end; None if unknown.
        steps_per_second: Speed in steps per second; None if unknown.
        members: Processes of the training.
        rescales: Changes from one generation to the next.
    """

    phase: str
    generation: int
    step: int
    steps_done: int = 0
    steps_total: int | None = None
    steps_per_second: float | None = None
    members: tuple[MemberSeen, ...] = ()
    rescales: tuple[Rescale, ...] = ()

    @property
    def holders(self) -> frozenset[str]:
        """Uids of the workers that hold the training's state, except those that are leaving."""
        return frozenset(
            each.uid
            for each in self.members
            if each.role == "worker" and each.takes_part and not each.leaving
        )

    @property
    def workers(self) -> int:
        """Number of workers in the current generation."""
        return sum(each.role == "worker" and each.takes_part for each in self.members)

    @property
    def is_over(self) -> bool:
        """Whether the training has ended."""
        return self.phase == "over"

    def shards_of(self, uid: str) -> int:
        """Return the number of shards of each batch that a worker computes; 0 if it is unknown."""
        return next((each.shards for each in self.members if each.uid == uid), 0)


def read(said: Mapping[str, Any]) -> TrainingProgress:
    """Parse a coordinator's status message.

    Raises:
        KeyError, TypeError, ValueError: The message is not a status, or has a number that none can
            be.
    """
    processes = said["processes"]
    members = tuple(
        MemberSeen(
            str(each["place"]).rpartition("/")[2],
            str(each["role"]),
            each["state"] == "in the training",
            bool(each["leaving"]),
            _count(each["shards"]),
        )
        for each in processes
    )
    total, rate = said["steps_total"], said["steps_per_second"]
    return TrainingProgress(
        str(said["phase"]),
        _count(said["generation"]),
        _count(said["step"]),
        _count(said["steps_done"]),
        None if total is None else _count(total),
        None if rate is None else _amount(rate),
        members,
        tuple(_rescale(each) for each in said["rescales"]),
    )


def _rescale(said: Mapping[str, Any]) -> Rescale:
    found = Rescale.from_json(said)
    pause = found.pause_seconds
    return replace(
        found,
        number=_count(found.number),
        at=_amount(found.at, _LAST_SECOND),
        workers_from=_count(found.workers_from),
        workers_to=_count(found.workers_to),
        servers_from=_count(found.servers_from),
        servers_to=_count(found.servers_to),
        pause_seconds=None if pause is None else _amount(pause),
        reason=str(found.reason),
    )


def _count(said: object) -> int:
    if not isinstance(said, int) or isinstance(said, bool) or not 0 <= said <= _LARGEST:
        raise ValueError(f"not a count: {str(said)[:80]}")
    return said


def _amount(said: object, most: float = float(_LARGEST)) -> float:
    is_number = isinstance(said, int | float) and not isinstance(said, bool)
    if not is_number or not 0 <= said <= most or not isfinite(said):  # type: ignore[operator, arg-type]
        raise ValueError(f"not an amount: {str(said)[:80]}")
    return float(said)  # type: ignore[arg-type]
