# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Options and output shared by several subcommands.

The client and msgspec are imported only where they are used: `tfm run` must start fast.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from tf_malleable.api.transport.address import default_socket
from tf_malleable.cli.completion import complete_files

if TYPE_CHECKING:
    from tf_malleable.api.transport.client import Client

_Command = TypeVar("_Command", bound=Callable[..., object])


def socket_option(command: _Command) -> _Command:
    """Add the option --socket to a command, which gets it as a Client named `client`."""
    return _add_socket(command, "client", _client)


def local_socket_option(command: _Command) -> _Command:
    """Add the option --socket to a command that starts programs; it gets a Client `client`."""
    return _add_socket(command, "client", _local_client)


def socket_path_option(command: _Command) -> _Command:
    """Add the option --socket to a command that starts programs; it gets a Path `socket`."""
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
    if value is None and os.environ.get("TF_MALLEABLE_HOST") and not context.resilient_parsing:
        raise ValueError(
            f"tfm {context.info_name} starts programs on this host, and TF_MALLEABLE_HOST names"
            " another: unset it, or use ssh"
        )
    return value if value is not None else default_socket()


def _local_client(context: click.Context, parameter: click.Parameter, value: Path | None) -> Client:
    from tf_malleable.api.transport.client import Client

    return Client(_path(context, parameter, value))


def _client(context: click.Context, parameter: click.Parameter, value: Path | None) -> Client:
    from tf_malleable.api.transport.client import Client

    if value is None and os.environ.get("TF_MALLEABLE_HOST"):
        from tf_malleable.cli.remote import remote_client

        if remote := remote_client():
            return remote
    return Client(value if value is not None else default_socket())


def command_argument(command: _Command) -> _Command:
    """Add the argument COMMAND, a program and its arguments, which shells complete with files."""
    add = click.argument(
        "command", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_files
    )
    return add(command)


def json_option(command: _Command) -> _Command:
    """Add the option --json to a command, which gets it as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        command
    )


def print_json(document: object) -> None:
    """Print a message or plain data as indented JSON."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
