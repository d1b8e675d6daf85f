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
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tf_malleable.elastic.allreduce.allreduce import Allreduce
from tf_malleable.elastic.allreduce.reduction_tree import Node
from tf_malleable.elastic.exit_requests import Restart
from tf_malleable.elastic.generation import Member, incarnation, next_number
from tf_malleable.elastic.links.errors import AbortedError, LinkError
from tf_malleable.elastic.member.coordinator_client import Message
from tf_malleable.elastic.member.newcomer import Newcomer
from tf_malleable.elastic.member.process import STALLED_SECONDS
from tf_malleable.elastic.member.state_transfer import LOOK_SECONDS
from tf_malleable.elastic.membership.participants import alone
from tf_malleable.elastic.mesh import Rescaled, StateHolder, Turn
from tf_malleable.elastic.settings import MeshSettings

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[Any, Any]

_LONG_SECONDS: Final = 86400.0
_KNOCK_SECONDS: Final = 0.3


class TrainingMember(Newcomer):
    """A process that trains; see mesh.Mesh for what a training calls.

    Attributes:
        batches: Returns the number of batches done, and in all; None for a number not known.
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
        self._has_begun = False
        self._is_own_step = False
        self._handed: Allreduce | None = None
        self._absence = 0.0
        self._cpus = 0.0
        self._was_lead = False
        self.batches: Callable[[], tuple[int | None, int | None]] = lambda: (None, None)
        super().__init__(settings, holder)

    # What the training calls.

    def begin(self, step: int) -> Turn:
        """See Mesh."""
        self._pace.begins()
        self._has_come = False
        if not self._has_begun:
            step = self._load_kept(step)
        while True:
            with self.changed:
                if not self._has_begun:
                    self._has_begun, self._step = True, step
                    self._control.send("ready", step=step)
                if self._lineage and step != self._step and self._handed is not None:
                    raise ValueError(f"the next step is {self._step}, not {step}")
                turn = self._next_turn()
                made = self._to_join() if turn is None else None
                if turn is not None:
                    self._take_up(turn)
                elif made is None:
                    self.changed.wait(LOOK_SECONDS)
                    continue
                attempt = self._attempt
            if turn is not None:
                turn = self._keep(turn)
                self._pace.computes(turn.stop - turn.start)
                return turn
            assert made is not None
            self._join(made, attempt)

    def reduce(self, step: int, parts: Mapping[Node, Vector]) -> Vector:
        """See Mesh."""
        try:
            return self._reduce(step, parts)
        except Rescaled as rescaled:
            raise Rescaled(self._keep(rescaled.turn)) from None

    def _reduce(self, step: int, parts: Mapping[Node, Vector]) -> Vector:
        self._pace.reduces()
        with self.changed:
            if step != self._step:
                raise ValueError(f"the step is {self._step}, not {step}")
            is_as_told = self._use.exchange is self._handed and self._giver is None
            exchange = self.use() if is_as_told else None
            proposed = self.proposed
        if exchange is None:
            return self._resume(step)
        problem: BaseException | None = None
        try:
            summed = exchange.sum(step, parts, proposed, self._room)
        except (LinkError, AbortedError) as error:
            problem = error
        finally:
            self.unuse(exchange, problem)
        with self.changed:
            if problem is None and self._use.exchange is exchange:
                self._commit(step, summed.vector, summed.following)
                return summed.vector
        return self._resume(step)

    def end(self, step: int) -> None:
        """See Mesh."""
        with self.changed:
            if step + 1 != self._step:
                raise ValueError(f"step {step} has not been summed: the next one is {self._step}")
            if self._is_own_step:
                self._is_own_step = False
                self._pace.reduces()
                self._tell_pause()

    def finish(self) -> Turn:
        """See Mesh."""
        with self.changed:
            self._is_finished = True
            self._control.send("beat", **self._beat())  # With the final progress.
            self._control.send("finished")
            while not self.ending.is_near:
                is_alone = self.generation is not None and len(self.generation.members) == 1
                if self._absence > (0 if is_alone else self.settings.alone_seconds):
                    break
                self.changed.wait(LOOK_SECONDS)
            lead = self.generation is not None and self.generation.members[0].id == self.id
            return Turn(self._step, self._ordinal(), is_lead=lead)

    def close(self) -> None:
        """See Mesh."""
        if self._keeper is not None:
            self._keeper.wait()
        super().close()

    def _keep(self, turn: Turn) -> Turn:
        """Save the state to a file if it is due; return the turn, with the file if it must end.

        The state does not change meanwhile, and is the one that this step follows.
        """
        was_lead, self._was_lead = self._was_lead, turn.is_lead
        if self._keeper is None or self._has_come or not self._lineage:
            return turn
        if turn.is_lead:
            self._keeper.look(turn.step)
        elif turn.leaving and (turn.last or (self._absence and was_lead)):
            # Without a coordinator, this process cannot know whether others have the state.
            return replace(turn, kept=str(self._keeper.keep_last(turn.step) or ""))
        return turn

    # Turns.

    def _next_turn(self) -> Turn | None:
        """Return the next turn; None if it is not known yet."""
        if self.ending.is_near:
            return self._last_turn()
        if self._is_leaving and not self._lineage and not self._drafts:
            self.ending.leaving = True
            return self._last_turn()
        if self.halted or self.generation is None:
            return None
        if self._is_only() and self.is_prepared(self.proposed):
            self._following = self.proposed  # There is no peer to agree with.
        if self._following:
            made, self._following = self.drafted(self._following), 0
            if made is None:
                self.ending.leaving = True
                return self._last_turn()
            self.enter(made.number)
            self.tell_entered()
        return self._turn()

    def _turn(self) -> Turn | None:
        generation, exchange = self.generation, self._use.exchange
        if generation is None or exchange is None:
            return None
        self._handed = exchange
        start, stop = generation.run(self.id, is_first_step=exchange.is_first)
        lead = generation.members[0].id == self.id
        first, only = exchange.is_first, self._is_only()
        return Turn(self._step, generation.ordinal, start, stop, lead, first, only)

    def _is_only(self) -> bool:
        return self.generation is not None and len(self.generation.processes) == 1

    def _take_up(self, turn: Turn) -> None:
        """Hand a turn to the training; the caller holds `changed`."""
        self._window = not (turn.must_end or turn.is_only)
        if self._is_asked and not turn.must_end:
            self._note_description()
        self._is_own_step = turn.is_only
        if turn.is_only:
            self._sum, self._step = None, turn.step + 1
        self.changed.notify_all()

    def _resume(self, step: int) -> Vector:
        """Continue after a rescale: return the sum from a peer, or raise Rescaled with a turn."""
        while True:
            with self.changed:
                while self.halted and not self.ending.is_near:
                    self.changed.wait(LOOK_SECONDS)
                giver, generation = self._giver, self.generation
                if self.ending.is_near:
                    raise Rescaled(self._last_turn())
                if giver is None:
                    turn = self._turn()
                    if turn is None:
                        self.changed.wait(LOOK_SECONDS)
                        continue
                    self._take_up(turn)
                    self._pace.computes(turn.stop - turn.start, again=True)
                    raise Rescaled(turn)
            assert generation is not None
            vector = self._fetch(generation, giver, step)
            with self.changed:
                if vector is None:
                    if self.generation is generation and not self.halted:
                        self._break((giver,))
                elif self.generation is generation and not self.halted:
                    self._commit(step, vector)
                    return vector

    def _break(self, lost: tuple[str, ...]) -> None:
        """Report peers of the generation as unreachable; the caller holds `changed`."""
        self._retire()
        self.halted = True
        self._control.send("broken", number=self._number(), lost=lost)

    # Messages to and from the coordinator.

    def _is_ready(self) -> bool:
        return self._has_begun

    def _beat(self) -> Message:
        exchange = self._use.exchange
        stalled = () if exchange is None else exchange.waits_for(STALLED_SECONDS)
        cpus = self.cpus.now()
        if cpus != self._cpus:
            self._cpus = cpus
            self._pace.forget()
        return {
            "step": self._step,
            "cpus": cpus,
            "speed": self._pace.speed(),
            "stalled": stalled,
            "number": self._number(),
            "leaving": self._is_leaving,
            "batches": self.batches(),
        }

    def _halted(self) -> None:
        self._attempt += 1
        self._following = self._failed = 0
        self._stop_giving()
        if not self._lineage:
            self.generation = None
        if self._incoming is not None:
            with suppress(OSError):
                self._incoming.shutdown(socket.SHUT_RDWR)

    def _restarted(self, restart: Restart) -> None:
        behind = restart.step - self._step
        if self._lineage not in ("", restart.lineage) or behind not in (0, 1):
            # The restart does not fit what was reported: better to be a newcomer than wrong.
            self._send_away(f"the others go on at step {restart.step}, this one at {self._step}")
            return
        self._lineage = restart.lineage
        self._giver = restart.giver if behind else None

    def _heard(self, message: Message) -> None:
        self._absence = 0.0
        super()._heard(message)
        if self.ending.is_near:
            with self.changed:
                self._halted()

    def _absent(self, seconds: float) -> None:
        super()._absent(seconds)
        self._absence = seconds
        with self.changed:
            patient = seconds < self.settings.alone_seconds
            if not (self.halted and self._lineage) or self.generation is None:
                return
            generation = self.generation
        if patient and not all(map(self._is_dead, generation.members)):
            return
        with self.changed:
            me = generation.member(self.id)
            if self.halted and self.generation is generation and me is not None:
                number = next_number(self._highest, incarnation(secrets.randbits(32)))
                self.begin_with(alone(number, self.shards, me), {})
                self.halted = False
                self.changed.notify_all()
        self.say("the others and the coordinator are gone: this worker trains on alone")

    def _is_dead(self, member: Member) -> bool:
        if member.id == self.id:
            return True
        address = member.address.host, member.address.port
        try:
            socket.create_connection(address, _KNOCK_SECONDS).close()
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
        return False
