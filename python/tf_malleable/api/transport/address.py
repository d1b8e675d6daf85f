# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Address of the controller's socket, and the error if no controller can be reached there."""

from __future__ import annotations

import os

from tf_malleable.api.transport.runtime_folder import runtime_folder
from tf_malleable.model.errors import OperationError

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Final

SOCKET: Final = "TF_MALLEABLE_SOCKET"
# Socket of root's controller.
ROOT_SOCKET: Final = "/run/tf_malleable/controller.sock"

# Exceptions of connect(2) if no process listens on the socket.
_NOBODY: Final = (FileNotFoundError, NotADirectoryError, ConnectionRefusedError)


class NoAnswerError(OperationError):
    """No controller can be reached at a socket. The message includes the remedy.

    Attributes:
        problem: Message without the remedy.
        is_nobody: True if no process listens there.
    """

    def __init__(self, socket: str | os.PathLike[str], error: OSError) -> None:
        """Compose the message.

        Args:
            socket: Path of the controller's socket.
            error: Exception of the connection attempt.
        """
        self.is_nobody = isinstance(error, _NOBODY)
        if self.is_nobody:
            self.problem = f"no controller answers at {socket}"
            super().__init__(f"{self.problem}; start one with: tfm controller --detach")
        else:
            reason = error.strerror or error
            self.problem = f"cannot reach the controller at {socket} ({reason})"
            super().__init__(self.problem)


def default_socket() -> Path:
    """Return the socket at which clients look for the controller by default.

    That is TF_MALLEABLE_SOCKET, or else the standard path. If the standard path does not
    exist, it is the socket of root's controller, provided that this user may write to it.
    """
    return _as_path(default_socket_path())


def default_socket_path() -> str:
    """Return the same as default_socket(), without loading pathlib."""
    if chosen := os.environ.get(SOCKET):
        return chosen
    path = _standard()
    return path if os.path.exists(path) or not os.access(ROOT_SOCKET, os.W_OK) else ROOT_SOCKET


def default_listening_socket() -> Path:
    """Return where a controller listens by default: TF_MALLEABLE_SOCKET or the standard path."""
    return _as_path(os.environ.get(SOCKET) or _standard())


def standard_socket() -> Path:
    """Return the standard path of the controller's socket.

    The path is in /run for root, unless $XDG_RUNTIME_DIR is set, and in the runtime folder of any
    other user.
    """
    return _as_path(_standard())


def _standard() -> str:
    if os.getuid() == 0 and not os.environ.get("XDG_RUNTIME_DIR"):
        return ROOT_SOCKET
    return os.path.join(runtime_folder("tf_malleable"), "controller.sock")


def _as_path(path: str) -> Path:
    from pathlib import Path  # Slow to load.

    return Path(path)
