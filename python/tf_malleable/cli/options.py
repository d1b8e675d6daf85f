# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Options and output shared by several subcommands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from tf_malleable.api.address import default_socket
from tf_malleable.api.client import Client

_Command = TypeVar("_Command", bound=Callable[..., object])


def _client(context: click.Context, parameter: click.Parameter, value: Path | None) -> Client:
    return Client(value if value is not None else default_socket())


def socket_option(command: _Command) -> _Command:
    """Add the option --socket to a command, which gets it as a Client named `client`."""
    return click.option(
        "--socket",
        "client",
        type=click.Path(path_type=Path),
        metavar="PATH",
        callback=_client,
        help="The controller's socket.  [default: $TF_MALLEABLE_SOCKET, or the standard path]",
    )(command)


def json_option(command: _Command) -> _Command:
    """Add the option --json to a command, which gets it as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        command
    )


def print_json(document: object) -> None:
    """Print a message or plain data as indented JSON."""
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
