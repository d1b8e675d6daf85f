# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Coordination: what processes report to the coordinator. Pure; decisions are in membership.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tf_malleable.elastic.generation import Generation
from tf_malleable.elastic.membership import participants
from tf_malleable.elastic.membership.membership import SETTLED_SECONDS, MembershipDecisions
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
from tf_malleable.elastic.membership.rescale_ledger import Rescale

# How long the processes of a known generation may take to connect to a new coordinator.
_GATHER_SECONDS: Final = 1.0


class Coordination(MembershipDecisions):
    """The coordinator's knowledge and decisions."""

    def joined(self, said: Mapping[str, Any], now: float) -> None:
        """Add a process that has connected, from its first message.

        Raises:
            KeyError, TypeError, ValueError: The message is malformed.
        """
        one = participants.participant(said, now)
        highest, told = int(said["highest"]), [Rescale.from_json(each) for each in said["rescales"]]
        self.everybody[one.id] = one
        self._highest = max(self._highest, highest)
        for each in told:
            self.ledger.learn(each)
        for known in self.ledger:
            self._say(one.id, "rescaled", rescale=known.as_json())
        if isinstance(self.phase, Over):
            self._say(one.id, "finished")
        elif one.generation is not None:
            self._returned(one, one.generation, now)
        elif self._is_one_too_many(one):
            self._expel(
                one.id,
                f"the training cuts batches into {self.shards} shards and has as many workers, so"
                " there is nothing to do for one more",
                exit_code=1,
            )

    def _is_one_too_many(self, one: Participant) -> bool:
        workers = [
            each
            for each in self.everybody.values()
            if each.is_worker and not each.leaving and not each.finished
        ]
        return one.is_worker and len(workers) > self.shards

    def _returned(self, one: Participant, told: Generation, now: float) -> None:
        """Handle the return of a process that has been in a generation."""
        phase = self.phase
        if isinstance(phase, AwaitHolders):
            if one.is_worker:
                self.phase = AwaitHolders(min(phase.until, now + _GATHER_SECONDS))
            if self.current is None or self.current.number < told.number:
                self.current = told
            return
        known = set() if self.current is None else {self.current.number}
        if isinstance(phase, Switching):
            known.add(phase.proposal.generation.number)
        if told.number not in known and not isinstance(phase, Halting):
            self._expel(one.id, "the others have gone on without it")
        elif isinstance(phase, Halting):
            self.phase = replace(
                phase, waiting=phase.waiting | {one.id}, candidates=phase.candidates | {one.id}
            )
            self._say(one.id, "halt", number=phase.number)
        elif isinstance(phase, Restarting):
            self._halt(now, phase.generation)
        else:
            # The process may have missed messages.
            self._is_broken = True

    def left(self, id_: str, now: float) -> None:
        """Remove a process that is no longer connected."""
        self.everybody.pop(id_, None)
        if isinstance(self.phase, Halting):
            self.phase = replace(
                self.phase,
                waiting=self.phase.waiting - {id_},
                candidates=self.phase.candidates - {id_},
            )

    def told(self, id_: str, said: Mapping[str, Any], now: float) -> None:
        """Handle a message of a process.

        Raises:
            KeyError, TypeError, ValueError: The message is malformed, or of an unknown kind.
        """
        one, kind = self.everybody.get(id_), said["kind"]
        if one is None:
            return
        if kind == "beat":
            self._beat(one, said)
        elif kind == "ready":
            one.ready = True
            one.position = replace(one.position, step=int(said["step"]))
        elif kind == "look":
            self._look(one, now)
        elif kind == "departed":
            self._departed.add(id_)
        elif kind == "finished":
            one.finished = True
        elif kind == "prepared":
            self._prepared(id_, int(said["number"]))
        elif kind == "unprepared":
            self._unprepared(one, int(said["number"]), tuple(said["lost"]), now)
        elif kind == "entered":
            self._entered(one, Generation.from_json(said["generation"]), now)
        elif kind == "halted":
            self._halted(one, said)
        elif kind == "broken":
            self._broke(one, int(said["number"]), tuple(said["lost"]))
        elif kind == "paused":
            self._paused(int(said["number"]), float(said["seconds"]))
        else:
            raise ValueError(f"no process says {kind!r}")

    def _beat(self, one: Participant, said: Mapping[str, Any]) -> None:
        one.step = int(said["step"])
        one.leaving = one.leaving or bool(said["leaving"])
        one.speed = None if said["speed"] is None else float(said["speed"])
        cpus = float(said.get("cpus", one.cpus))
        if cpus != one.cpus and cpus > 0:
            one.cpus = cpus
            self._settled_seconds = SETTLED_SECONDS
        done, total = said.get("batches", (None, None))
        one.batches = (done and int(done), total and int(total))
        current = self.current is not None and said["number"] == self.current.number
        one.stalled = tuple(map(str, said["stalled"])) if current else ()

    def _look(self, one: Participant, now: float) -> None:
        """Tell a newcomer whether it is the first, or which members have the state."""
        if isinstance(self.phase, AwaitHolders):
            self._say(one.id, "outlook", first=self._may_found(one, now), generation=None)
        elif self.current is not None and isinstance(self.phase, Steady | Preparing | Switching):
            self._say(one.id, "outlook", first=False, generation=self.current.as_json())

    def _may_found(self, one: Participant, now: float) -> bool:
        """Return whether a process is the one that begins a training, once it is ready."""
        assert isinstance(self.phase, AwaitHolders)
        everybody = self.everybody.values()
        if now < self.phase.until or any(each.position.lineage for each in everybody):
            return False
        able = [each for each in everybody if each.is_worker and not each.leaving]
        return one.id == min(able, key=lambda each: (each.since, each.id)).id

    def _prepared(self, id_: str, number: int) -> None:
        phase = self.phase
        if isinstance(phase, Preparing):
            made = phase.proposal.generation
        elif isinstance(phase, Restarting):
            made = phase.generation
        else:
            return
        if made.number == number:
            self.phase = replace(phase, waiting=phase.waiting - {id_})

    def _unprepared(self, one: Participant, number: int, lost: tuple[str, ...], now: float) -> None:
        phase = self.phase
        if isinstance(phase, Preparing) and phase.proposal.generation.number == number:
            self._put_off(phase.proposal.generation, (one.id, *lost), now)
        elif isinstance(phase, Restarting) and phase.generation.number == number:
            self._cuts.unreachable(one.id, lost)
            self._halt(now, phase.generation)

    def _entered(self, one: Participant, made: Generation, now: float) -> None:
        phase = self.phase
        one.generation = made
        if isinstance(phase, Switching) and phase.proposal.generation.number == made.number:
            self.phase = replace(phase, waiting=phase.waiting - {one.id})
            return
        is_new = self.current is None or self.current.number < made.number
        if is_new and isinstance(phase, Steady | Preparing):
            # An earlier coordinator had told the processes to go.
            if isinstance(phase, Preparing):
                self._call_off(phase.proposal.generation)
            waiting = frozenset(
                id_
                for id_ in made.ids
                if id_ not in self.everybody or self.everybody[id_].generation != made
            )
            self.phase = Switching(participants.Proposal(made, "join"), waiting)

    def _halted(self, one: Participant, said: Mapping[str, Any]) -> None:
        phase = self.phase
        one.position, one.halted = participants.position(said["position"]), True
        if isinstance(phase, Halting) and phase.number == int(said["number"]):
            self.phase = replace(phase, waiting=phase.waiting - {one.id})

    def _broke(self, one: Participant, number: int, lost: tuple[str, ...]) -> None:
        known = {} if self.current is None else {self.current.number}
        if isinstance(self.phase, Switching):
            known = {*known, self.phase.proposal.generation.number}
        if number in known and isinstance(self.phase, Steady | Preparing | Switching):
            self._is_broken = True
            self._cuts.lost(one.id, lost)

    def _paused(self, number: int, seconds: float) -> None:
        rescale = self.ledger.paused(number, seconds)
        if rescale is not None:
            self.spread(rescale)
