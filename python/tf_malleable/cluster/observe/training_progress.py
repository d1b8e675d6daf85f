# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Training progress, as a job's coordinator reports it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tf_malleable.elastic.membership.rescale_ledger import Rescale


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
        KeyError, TypeError, ValueError: The message is not a status.
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
