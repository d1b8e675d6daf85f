# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Signals that end a program which has processes or containers of its own to end first."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import NoReturn


def _as_ctrl_c(number: int) -> BaseException:
    return KeyboardInterrupt()


def end_on_signals(reason: Callable[[int], BaseException] = _as_ctrl_c) -> None:
    """Have SIGTERM, and SIGHUP unless it is ignored, end this program as Ctrl-C does.

    A terminal that is closed sends SIGHUP; a program that nohup starts ignores it. To be
    called in the main thread.

    Args:
        reason: Returns what to raise in the main thread, given the signal's number.
    """

    def end(number: int, frame: FrameType | None) -> NoReturn:
        if number == signal.SIGHUP:
            # A closed terminal's shell sends it once more, which must not cut the clean-up short.
            signal.signal(number, signal.SIG_IGN)
        raise reason(number)

    signal.signal(signal.SIGTERM, end)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, end)
