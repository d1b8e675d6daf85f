# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""State of a coordination: what the coordinator knows, and what it has yet to say. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from math import inf
from typing import Any, Final

from tf_malleable.elastic.generation import Generation, next_number
from tf_malleable.elastic.links.errors import COME_AGAIN
from tf_malleable.elastic.membership.participants import Participant
from tf_malleable.elastic.membership.phases import Phase, Steady
from tf_malleable.elastic.membership.rescale_ledger import Ledger, Rescale

# Minimum age of a generation before shards move to faster members.
_SETTLED_SECONDS: Final = 3.0
# A link that breaks again this soon, while both ends are alive, is given up.
_SOON_SECONDS: Final = 60.0

Outgoing = tuple[str, dict[str, Any]]


class Partitions:
    """Collects what processes report of each other, until take() is called."""

    def __init__(self) -> None:
        self._unreachable: set[frozenset[str]] = set()
        self._lost: set[tuple[str, str]] = set()
        self._broke_at: dict[frozenset[str], float] = {}

    def unreachable(self, one: str, others: Iterable[str]) -> None:
        """Note that a process could not connect to others."""
        self._unreachable |= {frozenset((one, each)) for each in others}

    def lost(self, one: str, others: Iterable[str]) -> None:
        """Note that the links of a process to others have broken."""
        self._lost |= {(one, each) for each in others}

    def stalled(self, here: Collection[Participant], all_: Mapping[str, Participant]) -> None:
        """Note that all processes wait, some for each other: no data pass between them."""
        for one in here:
            self.lost(one.id, one.stalled)
            for other in one.stalled:
                if other in all_ and not all_[other].is_worker:
                    self.lost(other, (one.id,))
        for one in here:
            one.stalled = ()

    def take(self, now: float) -> set[frozenset[str]]:
        """Return the pairs to keep apart, and forget what was reported.

        These are the pairs that could not connect, and those whose link has broken again. A break
        counts only if both ends report it, as a process that loses a link closes its others, too.
        """
        broken = {frozenset(pair) for pair in self._lost if pair[::-1] in self._lost}
        again = {pair for pair in broken if now - self._broke_at.get(pair, -inf) < _SOON_SECONDS}
        self._broke_at |= dict.fromkeys(broken, now)
        found = self._unreachable | again
        self._unreachable, self._lost = set(), set()
        return found


class CoordinationState:
    """What the coordinator knows, and what it has yet to say.

    The coordinator keeps nothing that processes cannot report again.

    Attributes:
        shards: Number of shards of each batch.
        everybody: All connected processes, by id.
        departed: Ids of the processes that have said that they end, in this generation.
        current: Current generation; None before the first.
        lineage: Lineage of the training; empty before the first generation.
        phase: What the coordinator waits for.
        is_broken: True if the current generation cannot go on.
        partitions: Pairs of processes that cannot reach each other.
        ledger: Rescales of the training.
        notices: Sentences for the user that have not been printed yet.
        is_replacement_due: True if a supervisor is about to start a worker.
        settle_seconds: Minimum age of a generation before shards move to faster members.
        last_since: Time since when the last member wants to leave, in seconds of the coordinator's
            clock; infinite if it does not.
    """

    def __init__(
        self, shards: int, phase: Phase, wall: Callable[[], float], incarnation: int
    ) -> None:
        """Begin without processes.

        Args:
            shards: Number of shards of each batch.
            phase: First phase.
            wall: Returns the time of day, in seconds since the epoch.
            incarnation: Tells this coordinator from others; see generation.incarnation().
        """
        self.shards, self.phase = shards, phase
        self.everybody: dict[str, Participant] = {}
        self.departed: set[str] = set()
        self.current: Generation | None = None
        self.lineage = ""
        self.is_broken = self.is_replacement_due = False
        self.partitions = Partitions()
        self.ledger = Ledger()
        self.notices: list[str] = []
        self.settle_seconds, self.last_since = _SETTLED_SECONDS, inf
        self._wall = wall
        self._highest, self._incarnation = 0, incarnation
        self._outgoing: list[Outgoing] = []

    # Messages.

    def say(self, id_: str, kind: str, **more: object) -> None:
        """Send a message to a process."""
        self._outgoing.append((id_, {"kind": kind, **more}))

    def take_outgoing(self) -> list[Outgoing]:
        """Return the messages that have not been sent, and forget them."""
        found, self._outgoing = self._outgoing, []
        return found

    def spread(self, rescale: Rescale) -> None:
        """Send a rescale to all processes, which remember it for the next coordinator."""
        for id_ in self.everybody:
            self.say(id_, "rescaled", rescale=rescale.as_json())

    def prepare(self, generation: Generation) -> None:
        """Tell all processes of a generation to connect to each other."""
        for id_ in generation.ids:
            self.say(id_, "prepare", generation=generation.as_json())

    def expel(self, id_: str, reason: str, exit_code: int = COME_AGAIN) -> None:
        """Send a process away; the user is told unless the reason is empty."""
        one = self.everybody.pop(id_, None)
        if one is not None:
            self.say(id_, "expelled", reason=reason, exit_code=exit_code)
            self.notices += [f"{one.place} is sent away: {reason}"] if reason else []

    # Processes and generations.

    def are_here(self, ids: Iterable[str]) -> bool:
        """Return whether all of these processes are connected, or have said that they end."""
        return set(ids) <= self.everybody.keys() | self.departed

    def learn_number(self, number: int) -> None:
        """Note a number that another coordinator may have given to a generation."""
        self._highest = max(self._highest, number)

    @property
    def upcoming_number(self) -> int:
        """What next_number() will return."""
        return next_number(self._highest, self._incarnation)

    def next_number(self) -> int:
        """Return a number for the next generation or halt; it is not given again."""
        self._highest = self.upcoming_number
        return self._highest

    def resume(self, current: Generation, lineage: str, now: float) -> None:
        """Take over a generation that an earlier coordinator has made."""
        self.current, self.lineage = current, lineage
        if missed := self.ledger.adopt(current, self._wall()):
            self.spread(missed)
        self.phase = Steady(now)

    def adopt(self, generation: Generation, reason: str, now: float) -> None:
        """Make a generation the current one, once all its processes have entered it.

        Args:
            generation: The generation.
            reason: Reason for the change, as in Rescale.reason.
            now: Current time, in seconds of the coordinator's clock.
        """
        self.spread(self.ledger.note(self.current, generation, self._wall(), reason))
        # Speeds are noisy, and depend on the plan: a move that has not helped is retried ever
        # less often.
        again = reason == "speed"
        self.settle_seconds = 2 * self.settle_seconds if again else _SETTLED_SECONDS
        self.current, self.is_broken = generation, False
        self.departed.clear()
        self.last_since = inf
        for each in generation.ids:
            one = self.everybody[each]
            one.generation, one.halted, one.stalled = generation, False, ()
            if one.is_worker:
                one.position = replace(one.position, lineage=self.lineage)
        self.phase = Steady(now)

    def reset_settling(self) -> None:
        """Let shards move to faster members as soon as in a new generation."""
        self.settle_seconds = _SETTLED_SECONDS
