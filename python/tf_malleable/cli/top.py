# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm top: shows live which job has which CPUs, and which wait."""

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
import msgspec
from rich.live import Live

from tf_malleable.api.address import NoAnswerError
from tf_malleable.api.client import Client
from tf_malleable.cli.options import json_option, socket_option
from tf_malleable.cli.tables import console
from tf_malleable.cli.top_view import Scene, picture

_END = b"q"

_SHORTEST = 0.1
_LONGEST = 3600.0


@click.command()
@click.option(
    "--interval",
    type=float,
    metavar="S",
    default=1.0,
    help=f"Refresh every S seconds, {_SHORTEST:g} to {_LONGEST:g}.  [default: 1]",
)
@click.option("--once", is_flag=True, help="Print the view once, as text.")
@json_option
@socket_option
def top(client: Client, interval: float, once: bool, as_json: bool) -> None:
    """Show live which job has which CPUs, and which jobs wait.

    Cores are desired (asked for; a star marks those set by hand), granted (by the
    policy; +1 means one more is lent to others) and actual (acknowledged by the job).
    eff. is the share of its cores that a job keeps busy.

    Quit with q or Ctrl-C. In a pipe it prints one view; with --json it prints one line per
    refresh.
    """
    if not _SHORTEST <= interval <= _LONGEST:
        raise ValueError(
            f"--interval must be a number from {_SHORTEST:g} to {_LONGEST:g}, not {interval:g}"
        )
    scene = _look(client)
    if as_json:
        _print_lines(client, scene, interval, once)
    elif once or not sys.stdout.isatty():
        console().print(picture(scene))
    else:
        _show(client, scene, interval)


def _look(client: Client) -> Scene:
    return Scene(client.info(), client.jobs())


def _print_lines(client: Client, scene: Scene, interval: float, once: bool) -> None:
    while True:
        document = {"controller": scene.info, "jobs": scene.jobs}
        click.echo(msgspec.json.encode(document))
        if once:
            return
        scene = _next_look(client, interval)


def _next_look(client: Client, interval: float) -> Scene:
    """Return the next scene, once the controller answers."""
    while True:
        time.sleep(interval)
        with suppress(NoAnswerError):
            return _look(client)


def _show(client: Client, scene: Scene, interval: float) -> None:
    note = ""
    with (
        suppress(KeyboardInterrupt),
        _keyboard() as ended_within,
        Live(console=console(), screen=True, auto_refresh=False) as live,
    ):
        while True:
            live.update(picture(scene, note), refresh=True)
            if ended_within(interval):
                return
            try:
                scene, note = _look(client), ""
            except NoAnswerError as error:
                note = f"{error.problem}; this is its last answer"


@contextmanager
def _keyboard() -> Iterator[Callable[[float], bool]]:
    """Read keys without waiting for Enter; yield a function that waits for q.

    It takes a timeout in seconds and returns whether to quit. The terminal's settings are
    restored, also on SIGTERM.
    """
    signal.signal(signal.SIGTERM, _end)
    # Ctrl-Z would return to the shell on our alternate screen.
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
