# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Member of a training: the Mesh that a training calls.

Where silent corruption could arise, and what prevents it:

- *A step that some have applied and others have not.* recovery_point.py decides who continues, and
  where. It relies on this: committing a step (noting its sum, advancing by one step) and
  answering a halt are both done under one lock, and a step that was not committed before the
  halt is never committed after it, even if its sum has arrived completely.
- *Old bytes in a new step.* Every generation has connections of its own; nothing of an earlier
  one can arrive. A descriptor is closed only by the thread that waits at it.
- *A state that changes while it is sent.* It is read only between begin() and the return of
  reduce(), which waits for all readers.
- *A state of which only a part has arrived.* Nothing is loaded until all of it has arrived. Until
  it is loaded, this process reports no state, and is a newcomer again if anything happens.
- *Training without the state.* begin() does not return a turn to compute before the process is
  told of a generation as a member with the state, or has loaded a state.
- *A step that the only process computes without the mesh.* No other process takes part in it, so
  it is committed when its turn is taken up: its answer to a halt meanwhile stays true.
- *The last sum overwritten while a peer needs it.* Sums alternate between two buffers; no member
  commits the step after next before those that are behind have caught up, as they take part in it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tf_malleable.elastic.allreduce.allreduce import Allreduce
from tf_malleable.elastic.allreduce.reduction_tree import Node
from tf_malleable.elastic.exit_requests import Restart
from tf_malleable.elastic.generation import Generation, incarnation, next_number
from tf_malleable.elastic.links.listener import is_gone
from tf_malleable.elastic.member import state_client
from tf_malleable.elastic.member.checkpoints import MemberCheckpoints
from tf_malleable.elastic.member.coordinator_client import Message
from tf_malleable.elastic.member.held_state import HeldState
from tf_malleable.elastic.member.newcomer import Newcomer
from tf_malleable.elastic.member.pace import Pace
from tf_malleable.elastic.member.process import LOOK_SECONDS, MeshProcess, RoleHandlers
from tf_malleable.elastic.member.state_client import StateDownload
from tf_malleable.elastic.member.state_server import StateServer
from tf_malleable.elastic.membership.participants import alone
from tf_malleable.elastic.mesh import CountsBatches, Rescaled, StateHolder, Turn
from tf_malleable.elastic.settings import MeshSettings

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[Any, Any]

# A member that waits for this long without a byte from any peer reports the peers it waits for.
_STALLED_SECONDS: Final = 1.0


class TrainingMember:
    """A process that trains; see mesh.Mesh for what a training calls.

    Attributes:
        settings: How to reach the coordinator and this process.
    """

    def __init__(self, settings: MeshSettings, holder: StateHolder) -> None:
        """Connect to the coordinator; nothing else happens before the first begin().

        Args:
            settings: How to reach the coordinator and this process.
            holder: Holder of the training's state.

        Raises:
            MeshError: There is no coordinator, or it refuses this process.
            OSError: This process cannot listen.
        """
        self.settings = settings
        self._counter = holder if isinstance(holder, CountsBatches) else None
        self._process = MeshProcess(settings, "worker")
        self._changed, self._current = self._process.changed, self._process.current
        self._ending = self._process.ending
        self._state = HeldState(holder)
        self._state_server = StateServer(self._process, self._state, holder)
        self._newcomer = Newcomer(self._process)
        self._pace = Pace()
        self._has_begun = False
        # The step is this process's alone, and committed already.
        self._is_own_step = False
        # The allreduce for which the training was told what to compute.
        self._handed: Allreduce | None = None
        # Generation that all have agreed to enter before the next step; 0 if there is none.
        self._following = 0
        # Id of the member that has the sum of the step, after a loss; None if it is not needed.
        self._giver: str | None = None
        # Seconds without a coordinator.
        self._absence = 0.0
        self._process.start(
            RoleHandlers(
                halted=self._halted,
                position=self._state.position,
                is_ready=lambda: self._has_begun,
                beat=self._beat,
                heard=self._heard,
                restarted=self._restarted,
                answer=self._state_server.answer,
                absent=self._absent,
            )
        )
        self._checkpoints = MemberCheckpoints(self._process, self._state, holder)

    # What the training calls.

    @property
    def shards(self) -> int:
        """See Mesh."""
        return self._process.shards

    @property
    def restored_from(self) -> str:
        """File of the state that was loaded or will be; empty if there is none."""
        return self._checkpoints.restored_from

    def ahead(self) -> bytes | None:
        """See Mesh."""
        while True:
            with self._changed:
                if self._process.is_free_to_leave:
                    self._ending.leaving = True
                if self._ending.is_near:
                    raise Rescaled(self._last_turn())
                outlook = self._newcomer.look()
            if outlook is None:
                continue
            if outlook.is_first:
                return self._checkpoints.find()
            said = self._newcomer.describe(outlook.generation)
            if said is not None:
                self._checkpoints.discard()
                return said
            time.sleep(LOOK_SECONDS)

    def begin(self, step: int) -> Turn:
        """See Mesh."""
        self._pace.begins()
        self._state.taken_over()
        if not self._has_begun:
            restored = self._checkpoints.load()
            step = step if restored is None else restored
        while True:
            with self._changed:
                if not self._has_begun:
                    self._has_begun = True
                    self._state.step = step
                    self._process.send("ready", step=step)
                expected = self._state.step
                if self._state.lineage and step != expected and self._handed is not None:
                    raise ValueError(f"the next step is {expected}, not {step}")
                turn = self._next_turn()
                download = self._next_download() if turn is None else None
                if turn is not None:
                    self._take_up(turn)
                elif download is None:
                    self._changed.wait(LOOK_SECONDS)
                    continue
            if turn is not None:
                turn = self._save(turn)
                self._pace.computes(turn.stop - turn.start)
                return turn
            assert download is not None
            self._join(download)

    def reduce(self, step: int, parts: Mapping[Node, Vector]) -> Vector:
        """See Mesh."""
        try:
            return self._reduce(step, parts)
        except Rescaled as rescaled:
            raise Rescaled(self._save(rescaled.turn)) from None

    def end(self, step: int) -> None:
        """See Mesh."""
        with self._changed:
            if step + 1 != self._state.step:
                expected = self._state.step
                raise ValueError(f"step {step} has not been summed: the next one is {expected}")
            if self._is_own_step:
                self._is_own_step = False
                self._pace.reduces()
                self._tell_pause()

    def finish(self) -> Turn:
        """See Mesh."""
        with self._changed:
            self._process.finish()
            while not self._ending.is_near:
                generation = self._current.generation
                is_alone = generation is not None and len(generation.members) == 1
                if self._absence > (0 if is_alone else self.settings.alone_seconds):
                    break
                self._changed.wait(LOOK_SECONDS)
            is_lead = self._current.is_lead
            return Turn(self._state.step, self._current.ordinal, is_lead=is_lead)

    def leave(self) -> None:
        """See Mesh."""
        self._process.leave()

    def close(self) -> None:
        """See Mesh."""
        self._checkpoints.wait()
        self._process.close()

    # Turns; the caller holds `changed`.

    def _next_turn(self) -> Turn | None:
        """Return the next turn; None if it is not known yet."""
        process = self._process
        if process.is_free_to_leave and not self._state.lineage:
            self._ending.leaving = True
        if self._ending.is_near:
            return self._last_turn()
        if process.is_halted or self._current.generation is None:
            return None
        if self._current.is_only and process.rendezvous.is_prepared(process.proposed):
            self._following = process.proposed  # There is no peer to agree with.
        if self._following:
            number, self._following = self._following, 0
            process.enter(number)
            if self._ending.is_near:
                return self._last_turn()
        return self._turn()

    def _turn(self) -> Turn | None:
        turn = self._current.turn(self._state.step)
        if turn is not None:
            self._handed = self._current.allreduce
        return turn

    def _last_turn(self) -> Turn:
        end = self._ending
        if end.reason:
            self._process.say(f"this process must end: {end.reason}")
        has_left = end.leaving and not end.finished and not end.reason
        return Turn(
            self._state.step,
            self._current.ordinal,
            finished=end.finished,
            leaving=end.leaving and not end.finished,
            last=end.last,
            exit_code=self.settings.left_code if has_left else end.exit_code,
        )

    def _take_up(self, turn: Turn) -> None:
        """Hand a turn to the training."""
        self._state_server.begin_step(must_end=turn.must_end, is_only=turn.is_only)
        self._is_own_step = turn.is_only
        if turn.is_only:
            self._state.commit(turn.step, None)
        self._changed.notify_all()

    def _save(self, turn: Turn) -> Turn:
        """Save a checkpoint if it is due; the caller does not hold `changed`."""
        return self._checkpoints.save(turn, is_cut_off=self._absence > 0)

    # The state of another member.

    def _next_download(self) -> StateDownload | None:
        """Return the download of the state that is due; the caller holds `changed`."""
        if self._state.lineage or self._process.is_halted:
            return None
        return self._newcomer.next_download()

    def _join(self, download: StateDownload) -> None:
        """Get the state and enter a generation; if that fails, remain a newcomer."""
        received = self._newcomer.receive(download)
        if received is None:
            return
        self._checkpoints.discard()
        self._state.load(received.description, received.buffers)
        number = download.generation.number
        with self._changed:
            known = self._process.rendezvous.generation(number)
            if not download.is_cancelled and known is download.generation:
                self._state.lineage, self._state.step = received.lineage, received.step
                self._process.enter(number)

    # Sums.

    def _reduce(self, step: int, parts: Mapping[Node, Vector]) -> Vector:
        self._pace.reduces()
        with self._changed:
            if step != self._state.step:
                raise ValueError(f"the step is {self._state.step}, not {step}")
            is_as_told = self._current.allreduce is self._handed and self._giver is None
            allreduce = self._current.use() if is_as_told else None
            proposed = self._process.proposed
        if allreduce is None:
            return self._resume(step)
        summed = self._process.sum(allreduce, step, parts, proposed, self._state.room)
        with self._changed:
            if summed is not None and self._current.allreduce is allreduce:
                self._commit(step, summed.vector, summed.following)
                return summed.vector
        return self._resume(step)

    def _resume(self, step: int) -> Vector:
        """Continue after a rescale: return the sum from a peer, or raise Rescaled with a turn."""
        while True:
            with self._changed:
                while self._process.is_halted and not self._ending.is_near:
                    self._changed.wait(LOOK_SECONDS)
                giver, generation = self._giver, self._current.generation
                if self._ending.is_near:
                    raise Rescaled(self._last_turn())
                if giver is None:
                    turn = self._turn()
                    if turn is None:
                        self._changed.wait(LOOK_SECONDS)
                        continue
                    self._take_up(turn)
                    self._pace.computes(turn.stop - turn.start, again=True)
                    raise Rescaled(turn)
            assert generation is not None
            vector = self._fetch_sum(generation, giver, step)
            if vector is not None:
                return vector

    def _fetch_sum(self, generation: Generation, giver: str, step: int) -> Vector | None:
        """Commit a step with the sum of another member, and return it; None if that fails."""
        member, secret = generation.member(giver), self.settings.secret
        assert member is not None
        vector = state_client.fetch_sum(member, secret, step, self._state.room)
        with self._changed:
            if self._current.generation is not generation or self._process.is_halted:
                return None
            if vector is None:
                self._process.break_off((giver,))
            else:
                self._commit(step, vector)
            return vector

    def _commit(self, step: int, vector: Vector, following: int = 0) -> None:
        """Advance by one step; the caller holds `changed`, and this process is not halted.

        All is noted before another thread gets the lock: a halt may come while readers end.
        """
        # New readers wait from now on; current readers have noted the step before.
        self._state_server.end_step()
        self._state.commit(step, vector)
        self._giver, self._following = None, following
        self._state_server.wait_for_readers()
        self._tell_pause()

    def _tell_pause(self) -> None:
        """Report the pause of a rescale after its first step; the caller holds `changed`."""
        number = self._current.ordinal
        seconds = self._pace.summed(number)
        if seconds is not None:
            # In case the coordinator dies with it.
            self._process.ledger.paused(number, seconds)
            self._process.send("paused", number=number, seconds=seconds)

    # Handlers of the process.

    def _beat(self) -> Message:
        allreduce = self._current.allreduce
        cpus = self._process.cpus.now()
        self._pace.use_cpus(cpus)
        return {
            "step": self._state.step,
            "cpus": cpus,
            "speed": self._pace.speed(),
            "stalled": () if allreduce is None else allreduce.waits_for(_STALLED_SECONDS),
            "batches": (None, None) if self._counter is None else self._counter.batches(),
        }

    def _heard(self, message: Message) -> None:
        self._absence = 0.0
        if message["kind"] == "outlook":
            self._newcomer.heard(message)
        if self._ending.is_near:
            self._halted()

    def _halted(self) -> None:
        self._following = 0
        self._state_server.cancel()
        self._newcomer.cancel()
        if not self._state.lineage:
            self._current.forget()

    def _restarted(self, restart: Restart) -> None:
        step, behind = self._state.step, restart.step - self._state.step
        if self._state.lineage not in ("", restart.lineage) or behind not in (0, 1):
            # The restart does not fit what was reported: better to be a newcomer than wrong.
            self._process.expel(f"the others go on at step {restart.step}, this one at {step}")
            return
        self._state.lineage = restart.lineage
        self._giver = restart.giver if behind else None

    def _absent(self, seconds: float) -> None:
        """Train on alone if the coordinator and all others are gone."""
        self._absence = seconds
        with self._changed:
            generation = self._current.generation
            if not (self._process.is_halted and self._state.lineage) or generation is None:
                return
        me = generation.member(self._process.id)
        others = [each for each in generation.members if each is not me]
        if seconds < self.settings.alone_seconds and not all(
            is_gone(each.address) for each in others
        ):
            return
        with self._changed:
            is_unchanged = self._current.generation is generation
            if self._process.is_halted and is_unchanged and me is not None:
                number = next_number(self._process.highest, incarnation(secrets.randbits(32)))
                self._process.begin(alone(number, self.shards, me), {})
                self._changed.notify_all()
        self._process.say("the others and the coordinator are gone: this worker trains on alone")
