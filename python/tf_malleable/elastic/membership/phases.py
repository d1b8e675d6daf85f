# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Phases of the coordinator: what it is waiting for. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tf_malleable.elastic.generation import Generation
from tf_malleable.elastic.membership.participants import Participant, Proposal
from tf_malleable.elastic.membership.recovery_point import Position


@dataclass(frozen=True)
class AwaitHolders:
    """Processes with the state may still come; no training begins before `until`."""

    until: float


@dataclass(frozen=True)
class Steady:
    """The current generation needs no change, since `since`."""

    since: float


@dataclass(frozen=True)
class Preparing:
    """The processes of a proposal connect to each other; those in `waiting` have not finished."""

    proposal: Proposal
    waiting: frozenset[str]
    until: float

    @property
    def generation(self) -> Generation:
        """Proposed generation."""
        return self.proposal.generation


@dataclass(frozen=True)
class Switching:
    """A proposal can no longer be cancelled; those in `waiting` have not entered it."""

    proposal: Proposal
    waiting: frozenset[str]

    @property
    def generation(self) -> Generation:
        """Proposed generation."""
        return self.proposal.generation


@dataclass(frozen=True)
class Halting:
    """Survivors stop; those in `waiting` have not reported what they have."""

    number: int
    waiting: frozenset[str]
    until: float
    candidates: frozenset[str]


@dataclass(frozen=True)
class Restarting:
    """Survivors connect to each other, to continue from a position."""

    generation: Generation
    start: Position
    giver: str | None
    waiting: frozenset[str]
    until: float
    reason: str


@dataclass(frozen=True)
class Over:
    """The training has ended.

    Attributes:
        members: Members at the end, as they were then: soon they are no longer connected.
    """

    members: tuple[Participant, ...] = ()


Phase = AwaitHolders | Steady | Preparing | Switching | Halting | Restarting | Over
