# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a job's coordinator says of its training. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tf_malleable.elastic.rescales import Rescale


@dataclass(frozen=True)
class MemberSeen:
    """A process of a training.

    Attributes:
        id: Of a worker, the uid of its pod.
        role: ``"worker"`` or ``"server"``.
        takes_part: It is in the present generation.
        leaving: It wants to go.
        shards: How many it computes of each batch.
    """

    id: str
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
        batches_done: How many batches are done; None if that is not known.
        batches_total: How many there will be.
        members: Its processes.
        rescales: How its generations changed.
    """

    phase: str
    generation: int
    step: int
    batches_done: int | None = None
    batches_total: int | None = None
    members: tuple[MemberSeen, ...] = ()
    rescales: tuple[Rescale, ...] = ()

    @property
    def holders(self) -> frozenset[str]:
        """The ids of the workers that have the state, but for those that are to go."""
        return frozenset(
            each.id
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

    def shards_of(self, id_: str) -> int:
        """Return how many shards of each batch a worker computes."""
        return next((each.shards for each in self.members if each.id == id_), 0)


def read(said: Mapping[str, Any]) -> TrainingProgress:
    """Return what a coordinator's status means.

    Raises:
        KeyError, TypeError, ValueError: It is none.
    """
    processes = said["processes"]
    members = tuple(
        MemberSeen(
            str(each["id"]),
            str(each["role"]),
            each["state"] == "in the training",
            bool(each["leaving"]),
            int(each["shards"]),
        )
        for each in processes
    )
    done = [int(p["batches_done"]) for p in processes if p.get("batches_done") is not None]
    total = [int(p["batches_total"]) for p in processes if p.get("batches_total") is not None]
    return TrainingProgress(
        str(said["phase"]),
        int(said["generation"]),
        int(said["step"]),
        max(done, default=None),
        max(total, default=None),
        members,
        tuple(Rescale.from_json(each) for each in said["rescales"]),
    )
