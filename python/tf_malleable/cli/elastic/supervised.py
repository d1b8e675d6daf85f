# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What processes that tfm elastic local starts do differently.

Ctrl-C and the end of a terminal reach all processes at once. Whoever has started them is to hear
of it alone, and ends them in order. If it is killed, they go by themselves.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from tf_malleable.linux.parent_death import signal_at_end_of_parent

_OF_THE_TERMINAL: Final = frozenset({signal.SIGINT, signal.SIGHUP})
_Function = TypeVar("_Function", bound=Callable[..., Any])


def option(function: _Function) -> _Function:
    """Add the hidden option --supervised PID to a command, with the pid of who starts it."""
    return click.option("--supervised", "supervisor", type=int, hidden=True)(function)


@contextmanager
def spared() -> Iterator[None]:
    """Keep these signals from processes that are started meanwhile, until they call begin()."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_THE_TERMINAL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin(supervisor: int) -> None:
    """Ignore these signals in this process, and in what it becomes and starts.

    It gets SIGTERM once its supervisor, whose process id this is, is gone.
    """
    signal_at_end_of_parent(signal.SIGTERM, supervisor)
    for number in _OF_THE_TERMINAL:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _OF_THE_TERMINAL)
