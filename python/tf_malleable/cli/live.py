# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Live view in the terminal, which is refreshed until q is pressed."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

import click
from rich.console import RenderableType
from rich.live import Live

from tf_malleable.cli.tables import console

_END = b"q"

_SHORTEST = 0.1
_LONGEST = 3600.0

interval_option = click.option(
    "--interval",
    type=float,
    metavar="SECONDS",
    default=1.0,
    help=f"Time between refreshes, {_SHORTEST:g} to {_LONGEST:g}.  [default: 1]",
)
once_option = click.option("--once", is_flag=True, help="Print the view once, as text.")


def check_interval(interval: float) -> None:
    """Raise ValueError if the refresh interval is out of range."""
    if not _SHORTEST <= interval <= _LONGEST:
        raise ValueError(
            f"--interval must be a number from {_SHORTEST:g} to {_LONGEST:g}, not {interval:g}"
        )


def show(first: RenderableType, following: Callable[[], RenderableType], interval: float) -> None:
    """Fill the terminal with a view until q, Ctrl-C or the end of input.

    Args:
        first: Initial view.
        following: Returns the current view.
        interval: Refresh interval in seconds.
    """
    with (
        suppress(KeyboardInterrupt),
        _keyboard() as ended_within,
        Live(console=console(), screen=True, auto_refresh=False) as live,
    ):
        live.update(first, refresh=True)
        while not ended_within(interval):
            live.update(following(), refresh=True)


@contextmanager
def _keyboard() -> Iterator[Callable[[float], bool]]:
    """Read keys without waiting for Enter; yield a function that waits for q.

    It takes a timeout in seconds and returns whether to quit. The terminal's settings are
    restored, also on SIGTERM.
    """
    signal.signal(signal.SIGTERM, _end)
    # Ctrl-Z would return to the shell on the alternate screen of this view.
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    keyboard = sys.stdin.fileno()
    if not os.isatty(keyboard):
        yield _sleep
        return
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    try:
        yield lambda seconds: _is_end_pressed(keyboard, seconds)
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _is_end_pressed(keyboard: int, seconds: float) -> bool:
    """Wait at most `seconds` for q or the end of input; return whether it came."""
    deadline = time.monotonic() + seconds
    while True:
        left = max(0.0, deadline - time.monotonic())
        if not select.select([keyboard], [], [], left)[0]:
            return False
        keys = os.read(keyboard, 64)
        if not keys or _END in keys:
            return True
