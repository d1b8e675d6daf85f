# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Keeps the state in files now and then, without holding up steps.

Between two steps it is noted what the state is; a thread writes it. While it does, nothing else is
kept. Where steps change the bytes of the state in place, these are copied before.
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

# Of epochs that are shorter, not each end is worth the time for writing.
_SHARE: Final = 0.1


class CheckpointWriter:
    """Is asked by the thread that trains, between two steps."""

    def __init__(
        self,
        folder: Path,
        seconds: float,
        cut_up: CutUp,
        holder: StateHolder,
        say: Callable[[str], None],
    ) -> None:
        """Begin without having kept anything.

        Args:
            folder: Where to keep states.
            seconds: How often, at most; but for the end of an epoch, and of the training.
            cut_up: How the training is.
            holder: Of the state.
            say: Tells people a sentence.
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
        """Keep the state that this step follows if it is time; the lead alone calls this."""
        if step == self._step or (self._thread is not None and self._thread.is_alive()):
            return
        if self._is_due(time.monotonic() - self._began_at):
            self._begin(step)

    def keep_last(self, step: int) -> Path | None:
        """Return the file of the state that this step follows; None if it cannot be kept."""
        self.wait()
        if step != self._step or self._path is None:
            self._begin(step)
            self.wait()
        return self._path if step == self._step else None

    def wait(self) -> None:
        """Wait for what is being written."""
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
