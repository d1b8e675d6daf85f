# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The address of the controller, and what to tell a user if it cannot be reached there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tf_malleable.model import OperationError

SOCKET: Final = "TF_MALLEABLE_SOCKET"
# Of root's controller.
ROOT_SOCKET: Final = "/run/tf_malleable/controller.sock"

# What connecting to a socket raises if nobody listens there.
_NOBODY: Final = (FileNotFoundError, NotADirectoryError, ConnectionRefusedError)


class NoAnswerError(OperationError):
    """No controller can be reached at a socket. The message says what to do about it, too.

    Attributes:
        problem: The message without the advice.
    """

    def __init__(self, socket: str | os.PathLike[str], error: OSError) -> None:
        """Word the message.

        Args:
            socket: The controller's socket.
            error: What the attempt to reach it has raised.
        """
        if isinstance(error, _NOBODY):
            self.problem = f"no controller answers at {socket}"
            super().__init__(f"{self.problem}; start one with: tfm controller")
        else:
            reason = error.strerror or error
            self.problem = f"cannot reach the controller at {socket} ({reason})"
            super().__init__(self.problem)


def default_socket() -> Path:
    """Return the socket where a client looks for the controller if none is given.

    That is TF_MALLEABLE_SOCKET, or else the standard path; if there is nothing, the socket of
    root's controller, provided that this user may use it.
    """
    path = default_listening_socket()
    is_chosen = bool(os.environ.get(SOCKET))
    if is_chosen or os.path.exists(path) or not os.access(ROOT_SOCKET, os.W_OK):
        return path
    return Path(ROOT_SOCKET)


def default_listening_socket() -> Path:
    """Return where a controller listens if not told: TF_MALLEABLE_SOCKET or the standard path."""
    chosen = os.environ.get(SOCKET)
    return Path(chosen) if chosen else standard_socket()


def standard_socket() -> Path:
    """Return the standard path of the controller's socket.

    It is below $XDG_RUNTIME_DIR, or else in /run for root and in /tmp for other users.
    """
    if own := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(own, "tf_malleable", "controller.sock")
    if os.getuid() == 0:
        return Path(ROOT_SOCKET)
    return Path(f"/tmp/tf_malleable-{os.getuid()}/controller.sock")
