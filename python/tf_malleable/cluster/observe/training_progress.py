# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a job's coordinator says of its training. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tf_malleable.elastic.membership.rescale_ledger import Rescale


@dataclass(frozen=True)
class MemberSeen:
    """A process of a training.

    Attributes:
        uid: Of a worker's pod; of a server, what it calls itself.
        role: ``"worker"`` or ``"server"``.
        takes_part: It is in the present generation.
        leaving: It wants to go.
        shards: How many it computes of each batch.
    """

    uid: str
    role: str
    takes_part: bool
    leaving: bool
    shards: int


@dataclass(frozen=True)
class TrainingProgress:
    """How far a training is.

    Attributes:
        phase: Of the coordinator, such as ``"steady"``.
        generation: Number of the present generation; 0 before the first.
        step: The one that comes next.
        steps_done: How many are done.
        steps_total: How many there will be; None if that is not known.
        steps_per_second: Its speed; None if that is not known.
        members: Its processes.
        rescales: How its generations changed.
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
        """The uids of the workers that have the state, but for those that are to go."""
        return frozenset(
            each.uid
            for each in self.members
            if each.role == "worker" and each.takes_part and not each.leaving
        )

    @property
    def workers(self) -> int:
        """How many workers train."""
        return sum(each.role == "worker" and each.takes_part for each in self.members)

    @property
    def is_over(self) -> bool:
        """Whether the training has ended."""
        return self.phase == "over"

    def shards_of(self, uid: str) -> int:
        """Return how many shards of each batch a worker computes."""
        return next((each.shards for each in self.members if each.uid == uid), 0)


def read(said: Mapping[str, Any]) -> TrainingProgress:
    """Return what a coordinator's status means.

    Raises:
        KeyError, TypeError, ValueError: It is none.
    """
    processes = said["processes"]
    members = tuple(
        MemberSeen(
            str(each["place"]).rpartition("/")[2],
            str(each["role"]),
            each["state"] == "in the training",
            bool(each["leaving"]),
            int(each["shards"]),
        )
        for each in processes
    )
    total, rate = said["steps_total"], said["steps_per_second"]
    return TrainingProgress(
        str(said["phase"]),
        int(said["generation"]),
        int(said["step"]),
        int(said["steps_done"]),
        None if total is None else int(total),
        None if rate is None else float(rate),
        members,
        tuple(Rescale.from_json(each) for each in said["rescales"]),
    )
