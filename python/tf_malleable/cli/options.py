# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Options and output shared by several subcommands.

The client and msgspec are imported only where they are used: `tfm run` must start fast.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from tf_malleable.api.address import default_socket

if TYPE_CHECKING:
    from tf_malleable.api.client import Client

_Command = TypeVar("_Command", bound=Callable[..., object])


def socket_option(command: _Command) -> _Command:
    """Add the option --socket to a command, which gets it as a Client named `client`."""
    return _add_socket(command, "client", _client)


def socket_path_option(command: _Command) -> _Command:
    """Add the option --socket to a command, which gets it as a Path named `socket`."""
    return _add_socket(command, "socket", _path)


def _add_socket(
    command: _Command,
    name: str,
    callback: Callable[[click.Context, click.Parameter, Path | None], object],
) -> _Command:
    return click.option(
        "--socket",
        name,
        type=click.Path(path_type=Path),
        metavar="PATH",
        callback=callback,
        help="The controller's socket.  [default: $TF_MALLEABLE_SOCKET, or the standard path]",
    )(command)


def _path(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path:
    return value if value is not None else default_socket()


def _client(context: click.Context, parameter: click.Parameter, value: Path | None) -> Client:
    from tf_malleable.api.client import Client

    return Client(_path(context, parameter, value))


def json_option(command: _Command) -> _Command:
    """Add the option --json to a command, which gets it as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        command
    )


def print_json(document: object) -> None:
    """Print a message or plain data as indented JSON."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
