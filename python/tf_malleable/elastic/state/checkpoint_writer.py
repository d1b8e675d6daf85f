# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Checkpoint writer: saves the state to files from time to time, without holding up steps.

Between two steps the state is noted; a thread writes it. Meanwhile no other state is saved. Where
steps change the bytes of the state in place, these are copied first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Final

from tf_malleable.elastic.mesh import HoldsStill, StateHolder
from tf_malleable.elastic.state import checkpoint
from tf_malleable.elastic.state.checkpoint import CutUp, KeptState

# Maximum share of time for writing: if epochs are shorter, not every end of one is saved.
_SHARE: Final = 0.1


class CheckpointWriter:
    """Saves states when due; the thread that trains calls it between two steps."""

    def __init__(
        self,
        folder: Path,
        seconds: float,
        cut_up: CutUp,
        holder: StateHolder,
        say: Callable[[str], None],
    ) -> None:
        """Create a writer that has saved nothing yet.

        Args:
            folder: Folder for the files.
            seconds: Minimum time between two files, except at the ends of epochs and of the
                training.
            cut_up: Settings of the training that the files record.
            holder: Holder of the state.
            say: Prints a sentence for the user.
        """
        self._folder, self._seconds, self._cut_up = folder, seconds, cut_up
        self._holder, self._say = holder, say
        self._still = holder if isinstance(holder, HoldsStill) else None
        self._thread: threading.Thread | None = None
        self._began_at, self._took = -inf, 0.0
        self._step: int | None = None
        self._path: Path | None = None
        self._is_failing = False

    def newest(self) -> KeptState | None:
        """Return the newest state; see checkpoint.newest()."""
        return checkpoint.newest(self._folder, self._cut_up, self._say)

    def look(self, step: int) -> None:
        """Save the state that this step follows if it is due; only the lead calls this."""
        if step == self._step or (self._thread is not None and self._thread.is_alive()):
            return
        if self._is_due(time.monotonic() - self._began_at):
            self._begin(step)

    def keep_last(self, step: int) -> Path | None:
        """Save the state that this step follows; return its file, or None if that fails."""
        self.wait()
        if step != self._step or self._path is None:
            self._begin(step)
            self.wait()
        return self._path if step == self._step else None

    def wait(self) -> None:
        """Wait until the file being written is complete."""
        if self._thread is not None:
            self._thread.join()

    def _is_due(self, since: float) -> bool:
        is_end = self._still is not None and self._still.is_at_epoch_end()
        return since >= (min(self._seconds, self._took / _SHARE) if is_end else self._seconds)

    def _begin(self, step: int) -> None:
        self._began_at, self._step, self._path = time.monotonic(), step, None
        description = self._holder.describe()
        buffers = self._copy() if self._still is None else self._still.still_buffers()
        self._thread = threading.Thread(
            target=self._write,
            args=(step, description, buffers),
            name="tf_malleable_checkpoint",
            daemon=True,
        )
        self._thread.start()

    def _copy(self) -> Sequence[memoryview]:
        buffers = self._holder.buffers()
        copies = [memoryview(bytes(each)) for each in buffers]
        del buffers
        self._holder.release()
        return copies

    def _write(self, step: int, description: bytes, buffers: Sequence[memoryview]) -> None:
        began = time.monotonic()
        try:
            path = checkpoint.write(self._folder, step, self._cut_up, description, buffers)
        except OSError as error:
            if not self._is_failing:
                self._is_failing = True
                self._say(
                    f"cannot keep the state in {self._folder}: {error.strerror or error}; the"
                    " training goes on, and tries again"
                )
        else:
            self._is_failing, self._took = False, time.monotonic() - began
            self._path = path
