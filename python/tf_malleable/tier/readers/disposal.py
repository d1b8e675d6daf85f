# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Disposal of descriptors that readers have passed, and that nobody here has become the owner of.

close(2) of some waits: of a socket with SO_LINGER, or of a file in a user's FUSE.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress


class Disposal:
    """Closes descriptors in a thread.

    There is one for each user, so that nobody waits for another one's descriptors.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[list[int], Callable[[], None]]] = deque()
        self._is_running = False

    def close(self, descriptors: list[int], closed: Callable[[], None]) -> None:
        """Close descriptors.

        Args:
            descriptors: Descriptors of any kind.
            closed: Callback in the thread, after they were closed.
        """
        with self._lock:
            self._waiting.append((descriptors, closed))
            if self._is_running:
                return
            self._is_running = True
        # Of its own, and a daemon: an executor would wait for it at the end.
        threading.Thread(target=self._run, name="tier-closing", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_running = False
                    return
                descriptors, closed = self._waiting.popleft()
            for each in descriptors:
                with suppress(OSError):  # The kernel has closed it all the same.
                    os.close(each)
            closed()
