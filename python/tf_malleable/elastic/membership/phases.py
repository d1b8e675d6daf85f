# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the coordinator is waiting for. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tf_malleable.elastic.generation import Generation
from tf_malleable.elastic.membership.participants import Participant, Proposal


@dataclass(frozen=True)
class AwaitHolders:
    """Somebody may still come who has the state; nobody begins before `until`."""

    until: float


@dataclass(frozen=True)
class Steady:
    """All is as it should be, since `since`."""

    since: float


@dataclass(frozen=True)
class Preparing:
    """The processes of a proposal connect to each other; some have not said that they have."""

    proposal: Proposal
    waiting: frozenset[str]
    until: float


@dataclass(frozen=True)
class Switching:
    """A proposal can no longer be called off; some have not said that they are in it."""

    proposal: Proposal
    waiting: frozenset[str]


@dataclass(frozen=True)
class Halting:
    """Survivors stop, and some have not said what they have."""

    number: int
    waiting: frozenset[str]
    until: float
    candidates: frozenset[str]


@dataclass(frozen=True)
class Restarting:
    """Survivors connect to each other, to go on from a step."""

    generation: Generation
    lineage: str
    step: int
    giver: str | None
    waiting: frozenset[str]
    until: float
    reason: str


@dataclass(frozen=True)
class Over:
    """The training has ended.

    Attributes:
        members: Those that came to its end, as they were: soon they are connected no more.
    """

    members: tuple[Participant, ...] = ()


Phase = AwaitHolders | Steady | Preparing | Switching | Halting | Restarting | Over
