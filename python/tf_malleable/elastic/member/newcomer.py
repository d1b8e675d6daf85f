# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Newcomer: a process that joins a training, finds the members and gets their state."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Final

from tf_malleable.elastic.generation import Generation, Member
from tf_malleable.elastic.links import messages
from tf_malleable.elastic.links.errors import MeshError
from tf_malleable.elastic.member.coordinator_client import Message
from tf_malleable.elastic.member.state_transfer import ANSWER_SECONDS, LOOK_SECONDS, StateTransfer
from tf_malleable.elastic.mesh import Rescaled, StateHolder, Turn
from tf_malleable.elastic.settings import MeshSettings
from tf_malleable.elastic.state import state_messages
from tf_malleable.elastic.state.checkpoint import CutUp, KeptState
from tf_malleable.elastic.state.checkpoint_writer import CheckpointWriter

_LONG_SECONDS: Final = 86400.0


class Newcomer(StateTransfer):
    """A process that trains, but has no state yet."""

    def __init__(self, settings: MeshSettings, holder: StateHolder) -> None:
        """Connect to the coordinator; arguments and errors as for TrainingMember."""
        self._incoming: socket.socket | None = None
        self._failed = 0
        self._outlook: Message | None = None
        self.restored_from = ""
        self._kept: KeptState | None = None
        self._keeper: CheckpointWriter | None = None
        # A state that has come is not the training's own before the training has taken it over.
        self._has_come = False
        super().__init__(settings, holder)
        if settings.checkpoint:
            cut_up = CutUp(self.shards, settings.training().seed)
            folder, seconds = Path(settings.checkpoint), settings.checkpoint_seconds
            self._keeper = CheckpointWriter(folder, seconds, cut_up, holder, self.say)

    def ahead(self) -> bytes | None:
        """See Mesh."""
        while True:
            with self.changed:
                if self._is_leaving and not self._drafts:
                    self.ending.leaving = True
                if self.ending.is_near:
                    raise Rescaled(self._last_turn())
                self._outlook = None
                self._control.send("look")
                self.changed.wait_for(
                    lambda: self._outlook is not None or self.ending.is_near, LOOK_SECONDS
                )
                outlook: Message | None = self._outlook
            if outlook is None:
                continue
            if outlook["first"]:
                return self._find_kept()
            said = self._ask(outlook)
            if said is not None:
                self._kept, self.restored_from = None, ""
                return said
            time.sleep(LOOK_SECONDS)

    def _find_kept(self) -> bytes | None:
        """Return the description of the state that files keep; None if there is none."""
        if self._kept is None and self._keeper is not None:
            self._kept = self._keeper.newest()
        if self._kept is None:
            return None
        self.restored_from = str(self._kept.path)
        return self._kept.description

    def _load_kept(self, step: int) -> int:
        """Load the state that _find_kept() has found; return the step that follows it."""
        kept, self._kept = self._kept, None
        if kept is None:
            return step
        self._holder.load(kept.description, kept.buffers)
        self._has_come = True
        self.say(f"goes on from {kept.path}")
        return kept.step

    def _ask(self, outlook: Message) -> bytes | None:
        """Return a member's description of its state; None if no member answers soon."""
        if outlook["generation"] is None:
            return None
        for member in Generation.from_json(outlook["generation"]).members:
            said = self._ask_one(member)
            if said is not None:
                return said
        return None

    def _ask_one(self, member: Member) -> bytes | None:
        try:
            deadline = time.monotonic() + messages.GREETING_SECONDS
            with messages.connect(member.address, self.settings.secret, deadline) as connection:
                messages.send(connection, {"kind": "describe", "to": member.id}, deadline)
                header = messages.receive(connection, time.monotonic() + ANSWER_SECONDS)
                return state_messages.receive_state(connection, header, lambda: True)[0]
        except (OSError, EOFError, MeshError, KeyError, ValueError):
            return None

    def _heard(self, message: Message) -> None:
        if message["kind"] == "outlook":
            with self.changed:
                self._outlook = message
                self.changed.notify_all()
            return
        super()._heard(message)

    def _last_turn(self) -> Turn:
        end = self.ending
        if end.reason:
            self.say(f"this process must end: {end.reason}")
        has_left = end.leaving and not end.finished and not end.reason
        return Turn(
            self._step,
            self._ordinal(),
            finished=end.finished,
            leaving=end.leaving and not end.finished,
            last=end.last,
            exit_code=self.settings.left_code if has_left else end.exit_code,
        )

    def _to_join(self) -> Generation | None:
        """Return the generation whose state this newcomer must get now; None if there is none."""
        if self._lineage or self.halted or self.proposed == self._failed:
            return None
        made = self.drafted(self.proposed)
        is_due = made is not None and self.is_prepared(made.number)
        return made if is_due and made is not None and self.id in dict(made.sources) else None

    def _join(self, made: Generation, attempt: int) -> None:
        """Get the state and enter a generation; if that fails, remain a newcomer."""
        source = made.member(dict(made.sources)[self.id])
        assert source is not None
        try:
            deadline = time.monotonic() + messages.GREETING_SECONDS
            with messages.connect(source.address, self.settings.secret, deadline) as connection:
                with self.changed:
                    self._incoming = connection
                    if attempt != self._attempt:
                        return
                said = {"kind": "state", "to": source.id, "number": made.number}
                messages.send(connection, said, deadline)
                header = messages.receive(connection, time.monotonic() + _LONG_SECONDS)
                description, buffers = state_messages.receive_state(
                    connection, header, lambda: attempt == self._attempt
                )
        except (OSError, EOFError, MeshError, KeyError, ValueError):
            with self.changed:
                if attempt == self._attempt:
                    self._failed = made.number
                    self._control.send("broken", number=made.number, lost=(source.id,))
            return
        finally:
            with self.changed:
                self._incoming = None
        self.restored_from = ""
        self._holder.load(description, buffers)
        self._has_come = True
        with self.changed:
            if attempt == self._attempt and self.drafted(made.number) is made:
                self._lineage, self._step = str(header["lineage"]), int(header["step"])
                self.enter(made.number)
                self.tell_entered()
