# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""HTTP client for the controller's Unix socket, with the standard library only.

It runs inside users' programs. So it needs no installed package, no answer can make it
wait or grow without bound, and a forked child can drop it without sending anything on its
parent's connections.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
from contextlib import suppress

from tf_malleable.api.transport.http_exchange import HttpError, HttpSocket
from tf_malleable.api.transport.json_lines import Lines
from tf_malleable.linux.processes.peer_credentials import peer_of
from tf_malleable.linux.processes.users import is_foreign, user_name
from tf_malleable.model.errors import ControllerError

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from tf_malleable.api.transport.http_exchange import Head

_TIMEOUT: Final = 10.0
_LARGEST_ANSWER: Final = 1 << 30
_BAD_REQUEST: Final = 400


class Connection:
    """Client of one controller. Connects when used, and reconnects when necessary.

    Not thread-safe, except for abort() and end_streams().

    Attributes:
        path: Path of the controller's socket.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        timeout: float = _TIMEOUT,
        largest: int = _LARGEST_ANSWER,
        dial: Callable[[], socket.socket] | None = None,
    ) -> None:
        """Create a connection; it connects on first use.

        Args:
            path: Path of the controller's socket.
            timeout: Longest silence within an answer, in seconds.
            largest: Longest answer in bytes, except for streams; the default exceeds any answer.
            dial: Returns a new socket to a controller on another host, of which `path` is then
                only the name; None to connect to `path`.
        """
        self.path = os.fspath(path)
        self._timeout = timeout
        self._largest = largest
        self._dial = dial
        self._sockets: list[socket.socket] = []
        self._aborted = False
        self._http = self._client()
        self._lines: list[Lines] = []

    def request(self, method: str, path: str, body: object | None = None) -> object:
        """Send a request and return the decoded JSON of the answer; None if it is empty.

        Raises:
            ControllerError: The controller refuses the request.
            OSError: The controller cannot be reached or does not answer in time, or the peer
                is not a controller.
        """
        try:
            answer = self._reusing(self._http, method, path, body)
            text = self._http.body(answer, self._largest)
        except OSError as error:
            self._http.close()
            raise self._problem(error) from error
        if not 200 <= answer.status < 300:
            raise _refusal(answer.status, text)
        try:
            return json.loads(text) if text else None
        except (ValueError, RecursionError) as error:
            self._http.close()
            raise self._problem(ValueError(str(error))) from None

    def ask(self, method: str, path: str, body: object | None = None) -> object:
        """Send a request with a user's input; otherwise as request().

        Raises:
            ValueError: The controller finds the request invalid.
            ControllerError, OSError: As request().
        """
        try:
            return self.request(method, path, body)
        except ControllerError as error:
            if error.status == _BAD_REQUEST:
                raise ValueError(str(error)) from None
            raise

    def stream(self, path: str) -> Lines:
        """Open a stream of JSON lines, on the connection of the preceding requests.

        Later requests open another connection. So a job that waits for cores has only one.

        Raises: as request().
        """
        client, self._http = self._http, self._client()
        try:
            answer = self._reusing(client, "GET", path, None)
            if answer.status == 200:
                lines = Lines(client, answer)
                self._lines.append(lines)
                return lines
            text = client.body(answer, self._largest)
        except OSError as error:
            client.close()
            raise self._problem(error) from error
        client.close()
        raise _refusal(answer.status, text)

    def close(self) -> None:
        """Close the connection and its streams. The object can be used again."""
        for lines in self._lines:
            lines.close()
        self._lines.clear()
        self._http.close()
        self._sockets.clear()

    def abort(self) -> None:
        """Make calls that wait in other threads fail at once, and all later calls as well."""
        self._aborted = True
        for each in tuple(self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def end_streams(self) -> None:
        """Make a call that waits for a line in another thread fail at once; requests continue."""
        for lines in tuple(self._lines):
            lines.end()

    def limit(self, timeout: float) -> None:
        """Set the longest silence within later answers, in seconds; streams are unaffected."""
        self._timeout = self._http.timeout = timeout
        if self._http.sock is not None:
            self._http.sock.settimeout(timeout)

    def forget(self) -> None:
        """Close the descriptors in a forked child, and nothing else.

        The objects may be in any state, as their thread did not survive the fork.
        """
        for each in self._sockets:
            with suppress(OSError):
                os.close(each.detach())

    def _client(self) -> HttpSocket:
        return HttpSocket(self._timeout, self._connected)

    def _connected(self, timeout: float) -> socket.socket:
        """Return a new socket to the controller."""
        if self._dial is not None:
            new = self._dial()
            self._opened(new)
            new.settimeout(timeout)
            return new
        new = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._opened(new)
        try:
            connect(new, self.path, timeout)
            check_server(new)
        except OSError:
            new.close()
            raise
        return new

    def _opened(self, new: socket.socket) -> None:
        # The descriptor of a closed socket is -1.
        self._sockets[:] = [each for each in self._sockets if each.fileno() != -1]
        self._sockets.append(new)

    def _reusing(self, client: HttpSocket, method: str, path: str, body: object | None) -> Head:
        """Send a request, on a new connection if the server has closed the current one."""
        reused = client.sock is not None
        try:
            return self._exchange(client, method, path, body)
        except (BrokenPipeError, ConnectionResetError):
            # The server closes connections that have been idle for long.
            if not reused or self._aborted:
                raise
            client.close()
            return self._exchange(client, method, path, body)

    def _exchange(self, client: HttpSocket, method: str, path: str, body: object | None) -> Head:
        data = None if body is None else json.dumps(body).encode()
        is_new = client.sock is None
        try:
            client.send(method, path, data)
        except (BrokenPipeError, ConnectionResetError):
            # A controller with too many connections answers so without reading, and hangs up.
            if not is_new or client.sock is None:
                raise
        if self._aborted:  # Perhaps before there was a socket to shut down.
            raise ConnectionAbortedError("the connection was aborted")
        return client.head()

    def _problem(self, error: OSError | ValueError) -> OSError:
        if isinstance(error, HttpError | ValueError):
            return ConnectionError(f"what answers at {self.path} is not a controller: {error!r}")
        return error


def connect(connection: socket.socket, path: str, timeout: float) -> None:
    """Connect to a Unix socket, and set a timeout.

    If the timeout were set before, connecting would fail at once while many clients connect:
    connect(2) waits for a place in the queue only if the descriptor may block.

    Args:
        connection: A new Unix socket.
        path: Path to connect to.
        timeout: Timeout in seconds; it also applies to later sends and receives.

    Raises:
        OSError: The socket at the path cannot be reached.
    """
    connection.settimeout(None)
    seconds, rest = divmod(timeout, 1.0)
    limit = struct.pack("@ll", int(seconds), int(rest * 1e6))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    try:
        connection.connect(path)
    except BlockingIOError:
        raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
    connection.settimeout(timeout)


def check_server(connection: socket.socket) -> None:
    """Raise OSError unless the server runs as root or as this process's user.

    Another user could have created the socket before the controller did, to read command
    lines. Root may use every user's controller. In a container with its own user namespace,
    root of the host does not appear as root.
    """
    server, own = peer_of(connection).uid, os.getuid()
    if own != 0 and server not in (0, own) and not is_foreign(server):
        raise OSError(
            errno.EACCES, f"it belongs to user {user_name(server)}, who is neither root nor you"
        )


def _refusal(status: int, text: bytes) -> ControllerError:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    sentence = said.get("error") if isinstance(said, dict) else None
    if not isinstance(sentence, str):
        sentence = f"the controller answers with status {status}"
    return ControllerError(status, sentence)
