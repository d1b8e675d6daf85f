# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm tier: the command group that runs, shows, fills and empties the tier of a node."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from tf_malleable.api.schema import tier as api
from tf_malleable.cli.options import json_option, print_json
from tf_malleable.cli.tier.admin_client import absolute, ask, tier_socket_option
from tf_malleable.cli.tier.serve import serve
from tf_malleable.model import OperationError
from tf_malleable.model.units import duration, printable, size_text

_BEAT_SECONDS = 0.5


@click.group()
def tier() -> None:
    """Keep copies of training data on this node, and share them with other nodes.

    Start a tier with tfm tier serve, and programs with tfm run --tier.
    """


tier.add_command(serve)


@tier.command()
@tier_socket_option
@json_option
def status(socket: Path | None, as_json: bool) -> None:
    """Show the tier's copies, and the reads that they have saved."""
    found = ask(socket, api.STATUS, api.TierStatus)
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(found))
        return
    from tf_malleable.cli.tables import console, table

    click.echo(f"source: {', '.join(map(printable, found.sources))}")
    click.echo(
        f"store: {printable(found.store)}, {size_text(found.used)} of"
        f" {size_text(found.capacity)} in {found.copies} copies, {found.growing} growing"
    )
    if found.unverified:
        click.echo(f"not verified since the machine started: {found.unverified} copies")
    if found.problem:
        click.echo(f"no copies are made: {found.problem}")
    output = console()
    if found.nodes:
        rows = [
            (each.node, "asked" if each.is_live else "left alone", str(each.opened))
            for each in found.nodes
        ]
        output.print(table(("node", "state", ">left alone"), rows))
    counted = [(name, f"{value:.0f}") for name, value in sorted(found.counters.items()) if value]
    if counted:
        output.print(table(("counted", ">number"), counted))


@tier.command()
@tier_socket_option
@click.option(
    "--wait/--no-wait", default=True, help="Wait until everything is copied.  [default: --wait]"
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
def warm(socket: Path | None, wait: bool, paths: tuple[str, ...]) -> None:
    """Copy files, and all files in folders, before they are read."""
    done = ask(socket, api.WARM, api.TierDone, {"paths": absolute(paths)})
    click.echo(f"{done.files} files to copy, {size_text(done.size)}")
    while wait and done.files:
        found = ask(socket, api.STATUS, api.TierStatus)
        files, size, files_done, size_done = found.warming
        if sys.stderr.isatty():
            left = duration(found.seconds_left)
            line = f"{size_text(size_done)} of {size_text(size)}, {left} left"
            click.echo(f"\r\033[K{line}", nl=False, err=True)
        if files_done >= files or found.problem:
            if sys.stderr.isatty():
                click.echo("\r\033[K", nl=False, err=True)
            if found.problem:
                raise OperationError(f"no copies are made: {found.problem}")
            break
        time.sleep(_BEAT_SECONDS)


@tier.command()
@tier_socket_option
@click.argument("paths", metavar="[PATH]...", nargs=-1)
def drop(socket: Path | None, paths: tuple[str, ...]) -> None:
    """Remove the copies of files and folders; all copies if none are given."""
    done = ask(socket, api.DROP, api.TierDone, {"paths": absolute(paths)})
    click.echo(f"dropped {done.files} copies, {size_text(done.size)}")


@tier.command()
@tier_socket_option
@click.argument("paths", metavar="[PATH]...", nargs=-1)
def check(socket: Path | None, paths: tuple[str, ...]) -> None:
    """Compare copies with their checksums, and drop damaged ones.

    Exits with 1 if any was damaged.
    """
    done = ask(socket, api.CHECK, api.TierDone, {"paths": absolute(paths)})
    for path in done.bad:
        click.echo(f"dropped: {printable(path)}")
    click.echo(f"checked {done.files} copies, {size_text(done.size)}, {len(done.bad)} bad")
    if done.bad:
        sys.exit(1)


@tier.command()
@tier_socket_option
@click.argument("file")
def why(socket: Path | None, file: str) -> None:
    """Say where a file is read from, and why.

    Exits with 1 if it is not read from a copy.
    """
    found = ask(socket, api.WHY, api.Why, {"paths": absolute((file,))})
    click.echo(found.sentence)
    if not found.is_copied:
        sys.exit(1)
