# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Signals for programs that have to end their own processes or containers first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


def _as_ctrl_c(number: int) -> BaseException:
    return KeyboardInterrupt()


def end_on_signals(reason: Callable[[int], BaseException] = _as_ctrl_c) -> None:
    """Have SIGTERM, and SIGHUP unless it is ignored, end this program as Ctrl-C does.

    A terminal that is closed sends SIGHUP; a program started by nohup ignores it. Call this
    in the main thread.

    Args:
        reason: Returns what to raise in the main thread, given the signal's number.
    """

    def end(number: int, frame: FrameType | None) -> NoReturn:
        if number == signal.SIGHUP:
            # A closed terminal's shell sends it once more; this must not cut the clean-up short.
            signal.signal(number, signal.SIG_IGN)
        raise reason(number)

    signal.signal(signal.SIGTERM, end)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, end)


@contextmanager
def delay_signals() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP interrupt only when the with statement ends.

    They are not blocked, as programs started meanwhile would inherit that. In threads other
    than the main one, where signals do not interrupt, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handlers = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if callable(handler := signal.getsignal(number))
    }
    try:
        for number in handlers:
            signal.signal(number, lambda number, frame: came.append(number))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
