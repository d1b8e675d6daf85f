# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Membership decisions: who is in which generation, and which messages follow. Pure.

A planned change has two parts. All processes of the next generation *prepare*: they connect to
each other while the current generation trains on. When all have, they are told to *go*, and agree
between two steps (see allreduce.py). Until then the change can be cancelled; after it, no more.

After a loss the survivors *halt*: none completes a step any more, and each reports what it has.
From that follows who continues and where (recovery_point.py); these prepare, and restart.

The coordinator keeps nothing that processes cannot report again. A new one gathers their reports,
and does not begin a training while processes of one may still be on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf
from typing import Any, Final

from tf_malleable.elastic.generation import Generation, next_number
from tf_malleable.elastic.links.errors import COME_AGAIN
from tf_malleable.elastic.membership import participants
from tf_malleable.elastic.membership.participants import Participant
from tf_malleable.elastic.membership.partitions import Partitions
from tf_malleable.elastic.membership.phases import (
    AwaitHolders,
    Halting,
    Over,
    Phase,
    Preparing,
    Restarting,
    Steady,
    Switching,
)
from tf_malleable.elastic.membership.recovery_point import Position, reconcile
from tf_malleable.elastic.membership.rescale_ledger import Ledger, Rescale

# How long the processes with the state may be away before another one begins without it.
_LOST_SECONDS: Final = 5.0
_HALT_SECONDS: Final = 1.5
_PREPARE_SECONDS: Final = 4.0
# Time to the next attempt after a process could not be reached.
_RETRY_SECONDS: Final = 5.0
# Minimum age of a generation before shards move to faster members.
SETTLED_SECONDS: Final = 3.0
# How long the last member, when it wants to leave, waits for another one to have started.
_HEIR_SECONDS: Final = 20.0
_REPLACEMENT_SECONDS: Final = 60.0
Outgoing = tuple[str, dict[str, Any]]


class MembershipDecisions:
    """The coordinator's decisions.

    Attributes:
        everybody: All connected processes, by id.
        current: Current generation; None before the first.
        ledger: Rescales of the training.
        notices: Sentences for the user that have not been printed yet.
        phase: What the coordinator waits for.
        shards: Number of shards of each batch.
        is_replacement_due: True if a supervisor is about to start a worker.
    """

    def __init__(
        self,
        shards: int,
        now: float,
        wall: Callable[[], float],
        lineage: Callable[[], str],
        first_seconds: float,
        incarnation: int,
    ) -> None:
        """Begin without processes.

        Args:
            shards: Number of shards of each batch.
            now: Current time, in seconds of the coordinator's clock.
            wall: Returns the time of day, in seconds since the epoch.
            lineage: Returns the lineage of a new training.
            first_seconds: Time in which no training begins, as one may be running, in seconds.
            incarnation: Tells this coordinator from others; see generation.incarnation().
        """
        self.everybody: dict[str, Participant] = {}
        self.current: Generation | None = None
        self.ledger = Ledger()
        self.notices: list[str] = []
        self.phase: Phase = AwaitHolders(now + first_seconds)
        self.shards, self.is_replacement_due = shards, False
        self._wall, self._new_lineage = wall, lineage
        self._lineage = ""
        self._highest, self._incarnation = 0, incarnation
        self._out: list[Outgoing] = []
        self._is_broken = False
        self._departed: set[str] = set()
        self._cuts = Partitions()
        self._plan_at = now
        self._has_begun = first_seconds > _LOST_SECONDS
        self._last_since = inf
        self._settled_seconds = SETTLED_SECONDS

    def decide(self, now: float) -> list[Outgoing]:
        """Return the messages to send, with their recipients; call it often, even without news."""
        for _ in range(4):  # One decision may follow from another, but not endlessly.
            before = self.phase
            self._end_if_over()
            self._go_on(now)
            if self.phase is before:
                break
        found, self._out = self._out, []
        return found

    def _say(self, id_: str, kind: str, **more: object) -> None:
        self._out.append((id_, {"kind": kind, **more}))

    def spread(self, rescale: Rescale) -> None:
        """Send a rescale to all processes, which remember it for the next coordinator."""
        for id_ in self.everybody:
            self._say(id_, "rescaled", rescale=rescale.as_json())

    def _expel(self, id_: str, reason: str, exit_code: int = COME_AGAIN) -> None:
        one = self.everybody.pop(id_, None)
        if one is not None:
            self._say(id_, "expelled", reason=reason, exit_code=exit_code)
            self.notices += [f"{one.place} is sent away: {reason}"] if reason else []

    def _are_here(self, ids: Iterable[str]) -> bool:
        return set(ids) <= self.everybody.keys() | self._departed

    def _end_if_over(self) -> None:
        if self.current is None or not isinstance(self.phase, Steady | Preparing | Switching):
            return
        here = [self.everybody.get(each.id) for each in self.current.members]
        if all(each is not None and each.finished for each in here):
            self.phase = Over(tuple(each for each in here if each is not None))
            for id_ in self.everybody:
                self._say(id_, "finished")

    def _go_on(self, now: float) -> None:
        phase = self.phase
        if isinstance(phase, AwaitHolders):
            self._gather(phase, now)
        elif isinstance(phase, Steady):
            self._steady(phase, now)
        elif isinstance(phase, Preparing):
            self._preparing(phase, now)
        elif isinstance(phase, Switching):
            made, was = phase.proposal.generation, self.current
            staying = set(made.ids) | set(() if was is None else was.ids)
            if self._is_broken or not self._are_here(staying):
                self._halt(now, made)
            elif not phase.waiting:
                self._adopt(made, phase.proposal.reason, now)
        elif isinstance(phase, Halting):
            if not phase.waiting:
                self._reconcile(phase, now)
            elif now >= phase.until:
                for id_ in phase.waiting:
                    self._expel(id_, "it did not answer in time")
                self.phase = replace(phase, waiting=frozenset())
        elif isinstance(phase, Restarting):
            is_late = phase.waiting and now >= phase.until
            for id_ in phase.waiting if is_late else ():
                self._expel(id_, "it could not connect to the others in time")
            if is_late or not self.everybody.keys() >= set(phase.generation.ids):
                self._halt(now, phase.generation)
            elif not phase.waiting:
                self._restart(phase, now)

    # Before there is a generation.

    def _gather(self, phase: AwaitHolders, now: float) -> None:
        holders = [each for each in self.everybody.values() if each.position.lineage]
        told = {each.generation for each in holders if each.generation is not None}
        complete = bool(holders) and self._are_here(id_ for each in told for id_ in each.ids)
        if not complete and now < phase.until:
            return
        if not holders:
            if ready := [
                each for each in participants.ready(self.everybody, now) if each.is_worker
            ]:
                self._found(ready[0], now)
            return
        lineages = {each.position.lineage for each in holders}
        halted = any(each.halted for each in self.everybody.values() if each.generation in told)
        if complete and not halted and len(told) == len(lineages) == 1:
            (self.current,), (self._lineage,) = told, lineages
            if missed := self.ledger.adopt(self.current, self._wall()):
                self.spread(missed)
            self.phase = Steady(now)
        else:
            self._halt(now, *told)

    def _found(self, first: Participant, now: float) -> None:
        """Let a process begin a training with its own state."""
        if self.current is not None or self._has_begun:
            self.notices.append(
                "all processes that had the state of the training are gone: it begins again with"
                f" what {first.place} has, its last checkpoint or nothing"
            )
        servers = [each for each in participants.ready(self.everybody, now) if not each.is_worker]
        self._highest = next_number(self._highest, self._incarnation)
        made = participants.survivors(self._highest, self.shards, (), [first], servers)
        self._prepare(made, self._new_lineage(), first.position.step, None, "start", now)

    # Planned changes.

    def _steady(self, phase: Steady, now: float) -> None:
        current = self.current
        assert current is not None
        if self._is_broken or not self.everybody.keys() >= set(current.ids):
            self._halt(now)
            return
        here = [self.everybody[each.id] for each in current.members]
        at_work = [each for each in here if not each.finished]
        if all(each.stalled for each in at_work):
            for each in here if at_work else ():
                if each.finished:
                    self._expel(each.id, "its training ended before that of the others", 0)
            if at_work:
                self._cuts.stalled(at_work, self.everybody)
                self._halt(now)
            return
        # Once members have finished, a new generation would not be ready before the end.
        if at_work != here or now < self._plan_at:
            return
        number = next_number(self._highest, self._incarnation)
        by_speed = now - phase.since >= self._settled_seconds
        proposal = participants.propose(current, self.everybody, number, now, by_speed=by_speed)
        if proposal is not None:
            self._highest = number
            made = proposal.generation
            self.phase = Preparing(proposal, frozenset(made.ids), now + _PREPARE_SECONDS)
            for id_ in made.ids:
                self._say(id_, "prepare", generation=made.as_json())
        elif len(here) == 1 and here[0].leaving and not self._is_heir_coming(now):
            self._say(here[0].id, "dismissed")
            self._plan_at = now + _RETRY_SECONDS

    def _is_heir_coming(self, now: float) -> bool:
        """Return whether the last member may hand over to a worker that is still starting."""
        self._last_since = min(self._last_since, now)
        workers = [each for each in self.everybody.values() if each.is_worker]
        is_any = self.is_replacement_due or any(not e.leaving and not e.ready for e in workers)
        seconds = _REPLACEMENT_SECONDS if self.is_replacement_due else _HEIR_SECONDS
        return is_any and now - self._last_since < seconds

    def _preparing(self, phase: Preparing, now: float) -> None:
        assert self.current is not None
        made = phase.proposal.generation
        if self._is_broken or not self._are_here(self.current.ids):
            self._call_off(made)
            self._halt(now)
        elif not self._are_here(made.ids):
            self._call_off(made)
            self.phase = Steady(now)
        elif not phase.waiting:
            self.phase = Switching(phase.proposal, frozenset(made.ids))
            for id_ in dict.fromkeys((*self.current.ids, *made.ids)):
                self._say(id_, "go", number=made.number)
        elif now >= phase.until:
            self._put_off(made, phase.waiting, now)

    def _call_off(self, made: Generation) -> None:
        for id_ in made.ids:
            self._say(id_, "cancel", number=made.number)

    def _put_off(self, made: Generation, unreachable: Iterable[str], now: float) -> None:
        """Cancel a generation, and leave newcomers that cannot be reached out for a while."""
        assert self.current is not None
        self._call_off(made)
        newcomers = set(unreachable) - set(self.current.ids)
        for id_ in newcomers & self.everybody.keys():
            self.everybody[id_].not_before = now + _RETRY_SECONDS
        if not newcomers:
            self._plan_at = now + _RETRY_SECONDS
        self.phase = Steady(now)

    def _adopt(self, made: Generation, reason: str, now: float) -> None:
        self.spread(self.ledger.note(self.current, made, self._wall(), reason))
        # Speeds are noisy, and depend on the plan: a move that has not helped is retried ever
        # less often.
        again = reason == "speed"
        self._settled_seconds = 2 * self._settled_seconds if again else SETTLED_SECONDS
        self.current, self._is_broken = made, False
        self._departed.clear()
        self._last_since = inf
        for each in made.ids:
            one = self.everybody[each]
            one.generation, one.halted, one.stalled = made, False, ()
            if one.is_worker:
                one.position = replace(one.position, lineage=self._lineage)
        self.phase = Steady(now)

    # After a loss.

    def _halt(self, now: float, *others: Generation) -> None:
        """Tell all processes that may have the state to stop, and to report what they have."""
        known = [each for each in (self.current, *others) if each is not None]
        asked = {id_ for each in known for id_ in each.ids}
        asked |= {each.id for each in self.everybody.values() if each.position.lineage}
        asked &= self.everybody.keys()
        self._highest = next_number(self._highest, self._incarnation)
        self._is_broken = False
        self._departed.clear()
        self.phase = Halting(self._highest, frozenset(asked), now + _HALT_SECONDS, frozenset(asked))
        for id_ in asked:
            self._say(id_, "halt", number=self._highest)

    def _reconcile(self, phase: Halting, now: float) -> None:
        here = [self.everybody[id_] for id_ in phase.candidates if id_ in self.everybody]
        verdict = reconcile({each.id: each.position for each in here if each.is_worker})
        if verdict is None:
            # Those with the state may only have lost their connection to the coordinator.
            self.phase = AwaitHolders(now + _LOST_SECONDS)
            return
        for id_ in verdict.expelled:
            self._expel(id_, "the others have gone on without it")
        order, cuts = () if self.current is None else self.current.ids, self._cuts.take(now)
        left = [each for each in here if each.id in verdict.members or not each.is_worker]
        for goes, reason in participants.sent_away(left, cuts, order, verdict.giver):
            self._expel(goes.id, reason)
            left.remove(goes)
        self._highest = next_number(self._highest, self._incarnation)
        made = participants.survivors(
            self._highest,
            self.shards,
            order,
            [each for each in left if each.is_worker],
            [each for each in left if not each.is_worker and not each.leaving],
        )
        giver = verdict.giver if verdict.giver in made.ids else None
        self._prepare(made, verdict.lineage, verdict.step, giver, "lost", now)

    def _prepare(
        self, made: Generation, lineage: str, step: int, giver: str | None, reason: str, now: float
    ) -> None:
        until = now + _PREPARE_SECONDS
        self.phase = Restarting(made, lineage, step, giver, frozenset(made.ids), until, reason)
        for id_ in made.ids:
            self._say(id_, "prepare", generation=made.as_json())

    def _restart(self, phase: Restarting, now: float) -> None:
        self._lineage = phase.lineage
        said = {"lineage": phase.lineage, "step": phase.step, "giver": phase.giver}
        for id_ in phase.generation.ids:
            self._say(id_, "restart", number=phase.generation.number, **said)
            one = self.everybody[id_]
            if one.is_worker:
                one.position = Position(phase.lineage, phase.step, has_sum=False)
        self._adopt(phase.generation, phase.reason, now)
