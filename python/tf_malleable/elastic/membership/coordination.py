# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Coordination: what processes report to the coordinator, and what it tells them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from tf_malleable.elastic.generation import Generation
from tf_malleable.elastic.membership import participants
from tf_malleable.elastic.membership.coordination_state import CoordinationState, Outgoing
from tf_malleable.elastic.membership.participants import Participant
from tf_malleable.elastic.membership.phases import (
    AwaitHolders,
    Halting,
    Over,
    Preparing,
    Restarting,
    Steady,
    Switching,
)
from tf_malleable.elastic.membership.recovery import Recovery
from tf_malleable.elastic.membership.rescale_ledger import Rescale
from tf_malleable.elastic.membership.rescaling import Rescaling
from tf_malleable.model.units import quoted

# How long the processes of a known generation may take to connect to a new coordinator.
_GATHER_SECONDS: Final = 1.0

Said = Mapping[str, Any]
"""A message from a process."""


class Coordination:
    """The coordinator's knowledge and decisions.

    Attributes:
        state: What the coordinator knows.
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
        self.state = CoordinationState(shards, AwaitHolders(now + first_seconds), wall, incarnation)
        self._recovery = Recovery(self.state, lineage, first_seconds)
        self._rescaling = Rescaling(self.state, self._recovery, now)
        self._reports: Mapping[str, Callable[[Participant, Said, float], None]] = {
            "beat": self._beat,
            "ready": self._ready,
            "look": self._look,
            "departed": self._departed,
            "finished": self._finished,
            "prepared": self._prepared,
            "unprepared": self._unprepared,
            "entered": self._entered,
            "halted": self._halted,
            "broken": self._broke,
            "paused": self._paused,
        }

    def decide(self, now: float) -> list[Outgoing]:
        """Return the messages to send, with their recipients; call it often, even without news."""
        for _ in range(4):  # One decision may follow from another, but not endlessly.
            before = self.state.phase
            self._end_if_over()
            self._go_on(now)
            if self.state.phase is before:
                break
        return self.state.take_outgoing()

    def _end_if_over(self) -> None:
        state = self.state
        if state.current is None or not isinstance(state.phase, Steady | Preparing | Switching):
            return
        here = [state.everybody.get(each.id) for each in state.current.members]
        if all(each is not None and each.finished for each in here):
            state.phase = Over(tuple(each for each in here if each is not None))
            for id_ in state.everybody:
                state.say(id_, "finished")

    def _go_on(self, now: float) -> None:
        phase = self.state.phase
        if isinstance(phase, AwaitHolders):
            self._recovery.gather(phase, now)
        elif isinstance(phase, Steady):
            self._rescaling.steady(phase, now)
        elif isinstance(phase, Preparing):
            self._rescaling.preparing(phase, now)
        elif isinstance(phase, Switching):
            self._rescaling.switching(phase, now)
        elif isinstance(phase, Halting):
            self._recovery.halting(phase, now)
        elif isinstance(phase, Restarting):
            self._recovery.restarting(phase, now)

    # Processes that connect and go.

    def joined(self, said: Said, now: float) -> None:
        """Add a process that has connected, from its first message.

        Raises:
            KeyError, TypeError, ValueError: The message is malformed.
        """
        state, one = self.state, participants.participant(said, now)
        highest, told = int(said["highest"]), [Rescale.from_json(each) for each in said["rescales"]]
        state.everybody[one.id] = one
        state.learn_number(highest)
        for each in told:
            state.ledger.learn(each)
        for known in state.ledger:
            state.say(one.id, "rescaled", rescale=known.as_json())
        if isinstance(state.phase, Over):
            state.say(one.id, "finished")
        elif one.generation is not None:
            self._returned(one, one.generation, now)
        elif self._is_one_too_many(one):
            state.expel(
                one.id,
                f"the training cuts batches into {state.shards} shards and has as many workers, so"
                " there is nothing to do for one more",
                exit_code=1,
            )

    def _is_one_too_many(self, one: Participant) -> bool:
        workers = [
            each
            for each in self.state.everybody.values()
            if each.is_worker and not each.leaving and not each.finished
        ]
        return one.is_worker and len(workers) > self.state.shards

    def _returned(self, one: Participant, told: Generation, now: float) -> None:
        """Handle the return of a process that has been in a generation."""
        state, phase = self.state, self.state.phase
        if isinstance(phase, AwaitHolders):
            if one.is_worker:
                state.phase = AwaitHolders(min(phase.until, now + _GATHER_SECONDS))
            if state.current is None or state.current.number < told.number:
                state.current = told
            return
        if isinstance(phase, Halting):
            state.phase = replace(
                phase, waiting=phase.waiting | {one.id}, candidates=phase.candidates | {one.id}
            )
            state.say(one.id, "halt", number=phase.number)
        elif told.number not in self._current_numbers():
            state.expel(one.id, "the others have gone on without it")
        elif isinstance(phase, Restarting):
            self._recovery.halt(now, phase.generation)
        else:
            # The process may have missed messages.
            state.is_broken = True

    def _current_numbers(self) -> set[int]:
        """Return the numbers of the generations in which processes may be now."""
        phase, current = self.state.phase, self.state.current
        known = set() if current is None else {current.number}
        return known | ({phase.generation.number} if isinstance(phase, Switching) else set())

    def left(self, id_: str, now: float) -> None:
        """Remove a process that is no longer connected."""
        phase = self.state.phase
        self.state.everybody.pop(id_, None)
        if isinstance(phase, Halting):
            self.state.phase = replace(
                phase, waiting=phase.waiting - {id_}, candidates=phase.candidates - {id_}
            )

    # Reports of connected processes.

    def told(self, id_: str, said: Said, now: float) -> None:
        """Handle a message of a process.

        Raises:
            KeyError, TypeError, ValueError: The message is malformed, or of an unknown kind.
        """
        one, kind = self.state.everybody.get(id_), said["kind"]
        if one is None:
            return
        if kind not in self._reports:
            raise ValueError(f"no process says {quoted(kind)}")
        self._reports[kind](one, said, now)

    def _beat(self, one: Participant, said: Said, now: float) -> None:
        one.step, one.has_reported = int(said["step"]), True
        one.leaving = one.leaving or bool(said["leaving"])
        one.speed = participants.speed(said["speed"])
        cpus = float(said.get("cpus", one.cpus))
        if cpus != one.cpus and participants.is_cpus(cpus):
            one.cpus = cpus
            self.state.reset_settling()
        done, total = said.get("batches", (None, None))
        one.batches = (done and int(done), total and int(total))
        current = self.state.current
        is_current = current is not None and said["number"] == current.number
        one.stalled = tuple(map(str, said["stalled"])) if is_current else ()

    def _ready(self, one: Participant, said: Said, now: float) -> None:
        one.ready = True
        one.position = replace(one.position, step=int(said["step"]))

    def _look(self, one: Participant, said: Said, now: float) -> None:
        """Tell a newcomer whether it is the first, or which members have the state."""
        state, phase = self.state, self.state.phase
        if isinstance(phase, AwaitHolders):
            is_first = self._may_found(phase, one, now)
            state.say(one.id, "outlook", first=is_first, generation=None)
        elif state.current is not None and isinstance(phase, Steady | Preparing | Switching):
            state.say(one.id, "outlook", first=False, generation=state.current.as_json())

    def _may_found(self, phase: AwaitHolders, one: Participant, now: float) -> bool:
        """Return whether a process is the one that begins a training, once it is ready."""
        everybody = self.state.everybody.values()
        if now < phase.until or any(each.position.lineage for each in everybody):
            return False
        able = [each for each in everybody if each.is_worker and not each.leaving]
        return one.id == min(able, key=lambda each: (each.since, each.id)).id

    def _departed(self, one: Participant, said: Said, now: float) -> None:
        self.state.departed.add(one.id)

    def _finished(self, one: Participant, said: Said, now: float) -> None:
        one.finished = True

    def _prepared(self, one: Participant, said: Said, now: float) -> None:
        phase, number = self.state.phase, int(said["number"])
        if isinstance(phase, Preparing | Restarting) and phase.generation.number == number:
            self.state.phase = replace(phase, waiting=phase.waiting - {one.id})

    def _unprepared(self, one: Participant, said: Said, now: float) -> None:
        phase, number, lost = self.state.phase, int(said["number"]), tuple(said["lost"])
        if not isinstance(phase, Preparing | Restarting) or phase.generation.number != number:
            return
        if isinstance(phase, Preparing):
            self._rescaling.put_off(phase.generation, (one.id, *lost), now)
        else:
            self.state.partitions.unreachable(one.id, lost)
            self._recovery.halt(now, phase.generation)

    def _entered(self, one: Participant, said: Said, now: float) -> None:
        state, phase = self.state, self.state.phase
        one.generation = made = Generation.from_json(said["generation"])
        if isinstance(phase, Switching) and phase.generation.number == made.number:
            state.phase = replace(phase, waiting=phase.waiting - {one.id})
            return
        is_new = state.current is None or state.current.number < made.number
        if is_new and isinstance(phase, Steady | Preparing):
            # An earlier coordinator had told the processes to go.
            if isinstance(phase, Preparing):
                self._rescaling.cancel(phase.generation)
            waiting = frozenset(
                id_
                for id_ in made.ids
                if id_ not in state.everybody or state.everybody[id_].generation != made
            )
            state.phase = Switching(participants.Proposal(made, "join"), waiting)

    def _halted(self, one: Participant, said: Said, now: float) -> None:
        phase = self.state.phase
        one.position, one.halted = participants.position(said["position"]), True
        if isinstance(phase, Halting) and phase.number == int(said["number"]):
            self.state.phase = replace(phase, waiting=phase.waiting - {one.id})

    def _broke(self, one: Participant, said: Said, now: float) -> None:
        number, lost = int(said["number"]), tuple(said["lost"])
        is_going_on = isinstance(self.state.phase, Steady | Preparing | Switching)
        if is_going_on and number in self._current_numbers():
            self.state.is_broken = True
            self.state.partitions.lost(one.id, lost)

    def _paused(self, one: Participant, said: Said, now: float) -> None:
        rescale = self.state.ledger.paused(int(said["number"]), float(said["seconds"]))
        if rescale is not None:
            self.state.spread(rescale)
