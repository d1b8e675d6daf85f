# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How our threads behave in a process that is not ours."""

from __future__ import annotations

import signal
import threading


def start_without_signals(thread: threading.Thread) -> None:
    """Start a thread with all signals blocked: it must not take one from the program.

    Raises:
        RuntimeError: No thread can be started.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
