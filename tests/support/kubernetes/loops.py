# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Threads that bring a part of a cluster to what the objects say, again after each change."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable

from tests.support.kubernetes.api import Api, UnavailableError
from tests.support.kubernetes.refusals import RefusedError
from tests.support.kubernetes.store import Change

_RETRY_SECONDS = 0.02


class Loop:
    """Calls a step at first, after each change that concerns it, and when it asks for that.

    Attributes:
        broken: What a step raised that it must not, as a traceback; nothing is called after it.
    """

    def __init__(
        self,
        api: Api,
        name: str,
        step: Callable[[], float | None],
        concerns: Callable[[Change], bool],
    ) -> None:
        """Begin.

        Args:
            api: Whose changes.
            name: Name of the thread.
            step: Returns in how many seconds it wants to be called again even if nothing changes.
            concerns: Says which changes matter.
        """
        self.broken = ""
        self._step = step
        self._due = threading.Event()
        self._due.set()
        self._ended = False

        def hear(change: Change) -> None:
            if concerns(change):
                self._due.set()

        with api.store.lock:
            self._ignore = api.store.listen(hear)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Have the step called soon."""
        self._due.set()

    def stop(self) -> None:
        """End, after the step that runs."""
        self._ended = True
        self._due.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._ignore()

    def _run(self) -> None:
        wait: float | None = None
        while True:
            self._due.wait(wait)
            self._due.clear()
            if self._ended:
                return
            try:
                wait = self._step()
            except (RefusedError, UnavailableError):
                wait = _RETRY_SECONDS  # Somebody was faster, or the server is down.
            except Exception:
                self.broken = traceback.format_exc()
                return
