# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Checkpoints of a member: the one that it restores, and those that it saves as the lead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tf_malleable.elastic.member.held_state import HeldState
from tf_malleable.elastic.member.process import MeshProcess
from tf_malleable.elastic.mesh import StateHolder, Turn
from tf_malleable.elastic.state.checkpoint import CutUp, KeptState
from tf_malleable.elastic.state.checkpoint_writer import CheckpointWriter


class MemberCheckpoints:
    """Checkpoints of a training in a folder, if it has one; only the thread that trains uses it.

    Attributes:
        restored_from: File of the state that was loaded or will be; empty if there is none.
    """

    def __init__(self, process: MeshProcess, state: HeldState, holder: StateHolder) -> None:
        """Create it for a process that has started.

        Args:
            process: This process.
            state: Which state it has.
            holder: Holder of the state itself.
        """
        self.restored_from = ""
        self._state, self._say = state, process.say
        self._found: KeptState | None = None
        self._was_lead = False
        self._writer: CheckpointWriter | None = None
        settings = process.settings
        if settings.checkpoint:
            cut_up = CutUp(process.shards, settings.training().seed)
            folder, seconds = Path(settings.checkpoint), settings.checkpoint_seconds
            self._writer = CheckpointWriter(folder, seconds, cut_up, holder, process.say)

    def find(self) -> bytes | None:
        """Return the description of the newest state in the folder; None if there is none."""
        if self._found is None and self._writer is not None:
            self._found = self._writer.newest()
        if self._found is None:
            return None
        self.restored_from = str(self._found.path)
        return self._found.description

    def load(self) -> int | None:
        """Load the state that find() has found; return the step that follows it, None if none."""
        found, self._found = self._found, None
        if found is None:
            return None
        self._state.load(found.description, found.buffers)
        self._say(f"goes on from {found.path}")
        return found.step

    def discard(self) -> None:
        """Forget what find() has found, as there are members that have the state."""
        self._found, self.restored_from = None, ""

    def save(self, turn: Turn, *, is_cut_off: bool) -> Turn:
        """Save the state if it is due; return the turn, with the file if the process must end.

        Args:
            turn: Turn that is about to be handed to the training. The state does not change
                meanwhile, and is the one that this step follows.
            is_cut_off: True if there is no coordinator, so that this process cannot know whether
                others have the state.
        """
        was_lead, self._was_lead = self._was_lead, turn.is_lead
        if self._writer is None or not self._state.is_own:
            return turn
        if turn.is_lead:
            self._writer.look(turn.step)
        elif turn.leaving and (turn.last or (is_cut_off and was_lead)):
            return replace(turn, kept=str(self._writer.keep_last(turn.step) or ""))
        return turn

    def wait(self) -> None:
        """Wait until the file being written is complete."""
        if self._writer is not None:
            self._writer.wait()
