# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Signal handling of the processes that `tfm elastic local` starts.

Ctrl-C and the end of a terminal reach all processes at once. Only the supervisor reacts, and
ends the others in order. If the supervisor is killed, the others end on their own.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from tf_malleable.linux.processes.signals import signal_at_end_of_parent

_OF_THE_TERMINAL: Final = frozenset({signal.SIGINT, signal.SIGHUP})
_Function = TypeVar("_Function", bound=Callable[..., Any])


def option(function: _Function) -> _Function:
    """Add the hidden option --supervised PID to a command; PID is the supervisor's."""
    return click.option("--supervised", "supervisor", type=int, hidden=True)(function)


@contextmanager
def spared() -> Iterator[None]:
    """Block the terminal's signals in processes started meanwhile, until they call begin()."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_THE_TERMINAL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin(supervisor: int) -> None:
    """Ignore the terminal's signals in this process, also after exec and in its children.

    The process gets SIGTERM once its supervisor is gone.

    Args:
        supervisor: Process id of the supervisor.
    """
    signal_at_end_of_parent(signal.SIGTERM, supervisor)
    for number in _OF_THE_TERMINAL:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _OF_THE_TERMINAL)
