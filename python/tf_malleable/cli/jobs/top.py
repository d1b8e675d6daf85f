# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm top: shows a live view of the jobs with their CPUs, and of the queue."""

from __future__ import annotations

import sys
import time
from contextlib import suppress

import click
import msgspec
from rich.console import RenderableType

from tf_malleable.api.transport.address import NoAnswerError
from tf_malleable.api.transport.client import Client
from tf_malleable.cli import live
from tf_malleable.cli.jobs.top_view import Scene, picture
from tf_malleable.cli.options import json_option, socket_option
from tf_malleable.cli.tables import console


@click.command()
@live.interval_option
@live.once_option
@json_option
@socket_option
def top(client: Client, interval: float, once: bool, as_json: bool) -> None:
    """Show live which job has which CPUs, and which jobs wait.

    Cores are desired (asked for; a star marks those set by hand), granted (by the
    policy; +1 means one more is lent to others) and actual (acknowledged by the job).
    eff. is the share of its cores that a job keeps busy. Reason is why a job has none. A small
    terminal shows the columns and the jobs for which there is room.

    Quit with q or Ctrl-C. In a pipe it prints one view; with --json it prints one line per
    refresh.
    """
    live.check_interval(interval)
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
    last = scene

    def following() -> RenderableType:
        nonlocal last
        try:
            last = _look(client)
        except NoAnswerError as error:
            return picture(last, f"{error.problem}; this is its last answer")
        return picture(last)

    live.show(picture(scene), following, interval)
