# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Rescaling: planned changes of the members, which interrupt nobody for long. Pure.

All processes of the next generation *prepare*: they connect to each other while the current
generation trains on. When all have, they are told to *go*, and agree between two steps (see
allreduce.py). Until then the change can be cancelled; after it, no more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tf_malleable.elastic.generation import Generation
from tf_malleable.elastic.membership import participants
from tf_malleable.elastic.membership.coordination_state import CoordinationState
from tf_malleable.elastic.membership.participants import Participant
from tf_malleable.elastic.membership.phases import Preparing, Steady, Switching
from tf_malleable.elastic.membership.recovery import Recovery

_PREPARE_SECONDS: Final = 4.0
# Time to the next attempt after a process could not be reached.
_RETRY_SECONDS: Final = 5.0
# How long the last member, when it wants to leave, waits for another one to have started.
_HEIR_SECONDS: Final = 20.0
_REPLACEMENT_SECONDS: Final = 60.0


class Rescaling:
    """Decisions in the phases Steady, Preparing and Switching."""

    def __init__(self, state: CoordinationState, recovery: Recovery, now: float) -> None:
        """Create the decisions.

        Args:
            state: What the coordinator knows.
            recovery: Decisions after a loss.
            now: Current time, in seconds of the coordinator's clock.
        """
        self._state, self._recovery = state, recovery
        self._plan_at = now

    def steady(self, phase: Steady, now: float) -> None:
        """Prepare another generation if that is worth it; halt if the current one is broken."""
        state, current = self._state, self._state.current
        assert current is not None
        if state.is_broken or not state.everybody.keys() >= set(current.ids):
            self._recovery.halt(now)
            return
        here = [state.everybody[each.id] for each in current.members]
        at_work = [each for each in here if not each.finished]
        if all(each.stalled for each in at_work):
            self._stalled(here, at_work, now)
        # Once members have finished, a new generation would not be ready before the end.
        elif at_work == here and now >= self._plan_at:
            self._plan(phase, current, now)

    def preparing(self, phase: Preparing, now: float) -> None:
        """Go once all are connected to each other; cancel the change if some are gone or late."""
        state, made = self._state, phase.generation
        assert state.current is not None
        if state.is_broken or not state.are_here(state.current.ids):
            self.cancel(made)
            self._recovery.halt(now)
        elif not state.are_here(made.ids):
            self.cancel(made)
            state.phase = Steady(now)
        elif not phase.waiting:
            state.phase = Switching(phase.proposal, frozenset(made.ids))
            for id_ in dict.fromkeys((*state.current.ids, *made.ids)):
                state.say(id_, "go", number=made.number)
        elif now >= phase.until:
            self.put_off(made, phase.waiting, now)

    def switching(self, phase: Switching, now: float) -> None:
        """Adopt the generation once all have entered it; halt if some are gone."""
        state, made = self._state, phase.generation
        staying = set(made.ids) | set(() if state.current is None else state.current.ids)
        if state.is_broken or not state.are_here(staying):
            self._recovery.halt(now, made)
        elif not phase.waiting:
            state.adopt(made, phase.proposal.reason, now)

    def cancel(self, made: Generation) -> None:
        """Tell the processes of a generation that it does not come."""
        for id_ in made.ids:
            self._state.say(id_, "cancel", number=made.number)

    def put_off(self, made: Generation, unreachable: Iterable[str], now: float) -> None:
        """Cancel a generation, and leave newcomers that cannot be reached out for a while."""
        state = self._state
        assert state.current is not None
        self.cancel(made)
        newcomers = set(unreachable) - set(state.current.ids)
        for id_ in newcomers & state.everybody.keys():
            state.everybody[id_].not_before = now + _RETRY_SECONDS
        if not newcomers:
            self._plan_at = now + _RETRY_SECONDS
        state.phase = Steady(now)

    def _stalled(self, here: list[Participant], at_work: list[Participant], now: float) -> None:
        """Halt, as all members at work wait; those that have finished hold them up."""
        if not at_work:
            return
        for each in here:
            if each.finished:
                self._state.expel(each.id, "its training ended before that of the others", 0)
        self._state.partitions.stalled(at_work, self._state.everybody)
        self._recovery.halt(now)

    def _plan(self, phase: Steady, current: Generation, now: float) -> None:
        state = self._state
        by_speed = now - phase.since >= state.settle_seconds
        proposal = participants.propose(
            current, state.everybody, state.upcoming_number, now, by_speed=by_speed
        )
        last = state.everybody[current.members[0].id] if len(current.members) == 1 else None
        if proposal is not None:
            made = proposal.generation
            state.learn_number(made.number)
            state.phase = Preparing(proposal, frozenset(made.ids), now + _PREPARE_SECONDS)
            state.prepare(made)
        elif last is not None and last.leaving and not self._is_heir_coming(now):
            state.say(last.id, "dismissed")
            self._plan_at = now + _RETRY_SECONDS

    def _is_heir_coming(self, now: float) -> bool:
        """Return whether the last member may hand over to a worker that is still starting."""
        state = self._state
        state.last_since = min(state.last_since, now)
        workers = [each for each in state.everybody.values() if each.is_worker]
        is_due = state.is_replacement_due
        is_any = is_due or any(not each.leaving and not each.ready for each in workers)
        seconds = _REPLACEMENT_SECONDS if is_due else _HEIR_SECONDS
        return is_any and now - state.last_since < seconds
