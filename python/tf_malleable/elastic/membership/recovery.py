# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Recovery: the start of a training, and its continuation after a loss. Pure.

After a loss the survivors *halt*: none completes a step any more, and each reports what it has.
From that follows who continues and where (recovery_point.py); these prepare, and restart.

A new coordinator gathers the reports of all processes, and does not begin a training while
processes of one may still be on their way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tf_malleable.elastic.generation import Generation
from tf_malleable.elastic.membership import participants
from tf_malleable.elastic.membership.coordination_state import CoordinationState
from tf_malleable.elastic.membership.participants import Participant
from tf_malleable.elastic.membership.phases import AwaitHolders, Halting, Restarting
from tf_malleable.elastic.membership.recovery_point import Position, reconcile

# How long the processes with the state may be away before another one begins without it.
_LOST_SECONDS: Final = 5.0
_HALT_SECONDS: Final = 1.5
_PREPARE_SECONDS: Final = 4.0


class Recovery:
    """Decisions in the phases AwaitHolders, Halting and Restarting."""

    def __init__(
        self, state: CoordinationState, lineage: Callable[[], str], first_seconds: float
    ) -> None:
        """Create the decisions.

        Args:
            state: What the coordinator knows.
            lineage: Returns the lineage of a new training.
            first_seconds: Time in which no training begins, as one may be running, in seconds.
        """
        self._state, self._new_lineage = state, lineage
        self._may_have_begun = first_seconds > _LOST_SECONDS

    def gather(self, phase: AwaitHolders, now: float) -> None:
        """Continue the training that processes report; begin one if none of them has the state."""
        state = self._state
        everybody = state.everybody
        holders = [each for each in everybody.values() if each.position.lineage]
        told = {each.generation for each in holders if each.generation is not None}
        complete = bool(holders) and state.are_here(id_ for each in told for id_ in each.ids)
        if not complete and now < phase.until:
            return
        if not holders:
            ready = participants.ready(everybody, now)
            first = next((each for each in ready if each.is_worker), None)
            if first is not None:
                self._found(first, now)
            return
        lineages = {each.position.lineage for each in holders}
        halted = any(each.halted for each in everybody.values() if each.generation in told)
        if complete and not halted and len(told) == len(lineages) == 1:
            (generation,), (lineage,) = told, lineages
            state.resume(generation, lineage, now)
        else:
            self.halt(now, *told)

    def halt(self, now: float, *others: Generation) -> None:
        """Tell all processes that may have the state to stop, and to report what they have.

        Args:
            now: Current time, in seconds of the coordinator's clock.
            others: Generations besides the current one whose processes may have the state.
        """
        state = self._state
        known = [each for each in (state.current, *others) if each is not None]
        asked = {id_ for each in known for id_ in each.ids}
        asked |= {each.id for each in state.everybody.values() if each.position.lineage}
        asked &= state.everybody.keys()
        state.is_broken = False
        state.departed.clear()
        number, waiting = state.next_number(), frozenset(asked)
        state.phase = Halting(number, waiting, now + _HALT_SECONDS, candidates=waiting)
        for id_ in asked:
            state.say(id_, "halt", number=number)

    def halting(self, phase: Halting, now: float) -> None:
        """Decide who continues once all have reported, or are late."""
        if not phase.waiting:
            self._reconcile(phase, now)
        elif now >= phase.until:
            for id_ in phase.waiting:
                self._state.expel(id_, "it did not answer in time")
            self._state.phase = replace(phase, waiting=frozenset())

    def restarting(self, phase: Restarting, now: float) -> None:
        """Restart once all are connected to each other; halt again if some are gone or late."""
        state = self._state
        is_late = phase.waiting and now >= phase.until
        for id_ in phase.waiting if is_late else ():
            state.expel(id_, "it could not connect to the others in time")
        if is_late or not state.everybody.keys() >= set(phase.generation.ids):
            self.halt(now, phase.generation)
        elif not phase.waiting:
            self._restart(phase, now)

    def _found(self, first: Participant, now: float) -> None:
        """Let a process begin a training with its own state."""
        state = self._state
        if state.current is not None or self._may_have_begun:
            state.notices.append(
                "all processes that had the state of the training are gone: it begins again with"
                f" what {first.place} has, its last checkpoint or nothing"
            )
        servers = [each for each in participants.ready(state.everybody, now) if not each.is_worker]
        made = participants.survivors(state.next_number(), state.shards, (), [first], servers)
        start = Position(self._new_lineage(), first.position.step, has_sum=False)
        self._prepare(made, start, None, "start", now)

    def _reconcile(self, phase: Halting, now: float) -> None:
        state = self._state
        here = [state.everybody[id_] for id_ in phase.candidates if id_ in state.everybody]
        verdict = reconcile({each.id: each.position for each in here if each.is_worker})
        if verdict is None:
            # Those with the state may only have lost their connection to the coordinator.
            state.phase = AwaitHolders(now + _LOST_SECONDS)
            return
        for id_ in verdict.expelled:
            state.expel(id_, "the others have gone on without it")
        order = () if state.current is None else state.current.ids
        left = [each for each in here if each.id in verdict.members or not each.is_worker]
        cuts = state.partitions.take(now)
        for goes, reason in participants.sent_away(left, cuts, order, verdict.giver):
            state.expel(goes.id, reason)
            left.remove(goes)
        made = participants.survivors(
            state.next_number(),
            state.shards,
            order,
            [each for each in left if each.is_worker],
            [each for each in left if not each.is_worker and not each.leaving],
        )
        giver = verdict.giver if verdict.giver in made.ids else None
        start = Position(verdict.lineage, verdict.step, has_sum=False)
        self._prepare(made, start, giver, "lost", now)

    def _prepare(
        self, made: Generation, start: Position, giver: str | None, reason: str, now: float
    ) -> None:
        until = now + _PREPARE_SECONDS
        self._state.phase = Restarting(made, start, giver, frozenset(made.ids), until, reason)
        self._state.prepare(made)

    def _restart(self, phase: Restarting, now: float) -> None:
        state, start = self._state, phase.start
        state.lineage = start.lineage
        said = {"lineage": start.lineage, "step": start.step, "giver": phase.giver}
        for id_ in phase.generation.ids:
            state.say(id_, "restart", number=phase.generation.number, **said)
            one = state.everybody[id_]
            if one.is_worker:
                one.position = start
        state.adopt(phase.generation, phase.reason, now)
