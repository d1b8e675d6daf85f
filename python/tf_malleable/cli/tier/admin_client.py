# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Requests of tfm tier to the tier's daemon, with an error of one sentence if none answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from tf_malleable.api.transport.tier_address import control_socket, default_tier_socket
from tf_malleable.model import ControllerError, OperationError

if TYPE_CHECKING:
    from typing import Any

# In seconds; long, as a check reads all copies.
_TIMEOUT = 3600.0
_Answer = TypeVar("_Answer")
_Command = TypeVar("_Command", bound=Callable[..., object])


def tier_socket_option(command: _Command) -> _Command:
    """Add the option --socket to a command."""
    return click.option(
        "--socket",
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="The tier's socket.  [default: $TF_MALLEABLE_TIER_SOCKET, or the standard path]",
    )(command)


def absolute(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths in the tier's form: absolute, without symbolic links; URLs as they are."""
    return tuple(path if path.startswith("s3://") else os.path.realpath(path) for path in paths)


def ask(
    socket: Path | None,
    path: str,
    kind: type[_Answer],
    body: dict[str, Any] | None = None,
) -> _Answer:
    """Send a request to the daemon and return its response.

    Raises:
        ValueError: The daemon rejects the request as invalid.
        OperationError: No daemon answers, or it refuses the request.
    """
    import msgspec

    from tf_malleable.api.transport.connection import Connection

    where = socket or default_tier_socket()
    connection = Connection(control_socket(where), timeout=_TIMEOUT)
    try:
        answer = connection.ask("GET" if body is None else "POST", path, body)
        return msgspec.convert(answer, kind)
    except ControllerError as error:
        raise OperationError(str(error)) from None
    except OSError as error:
        raise OperationError(
            f"no tier answers at {where} ({error.strerror or error}); start one with:"
            " tfm tier serve"
        ) from None
    except msgspec.ValidationError:
        raise OperationError(f"the service at {where} is not a data tier of this version") from None
    finally:
        connection.close()
