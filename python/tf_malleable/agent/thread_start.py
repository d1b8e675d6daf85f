# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Start of threads inside the user's program, which must not notice them."""

from __future__ import annotations

import signal
import threading


def start_without_signals(thread: threading.Thread) -> None:
    """Start a thread with all signals blocked, so that the program receives them.

    Raises:
        RuntimeError: The thread cannot be started.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
