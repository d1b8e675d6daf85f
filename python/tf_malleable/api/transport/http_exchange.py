# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""HTTP/1.1 over a socket: as much of it as the controller's answers need.

http.client loads the parsers of e-mails, which takes several times as long as all else that
`tfm run` does. What it refuses is refused here, too.
"""

from __future__ import annotations

import socket

from tf_malleable.quick_dataclass import dataclass

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Final

_PIECE: Final = 1 << 16
_LONGEST_HEAD: Final = 1 << 16
_MOST_HEADERS: Final = 100
# More is longer than any answer; of thousands of digits Python makes no number.
_MOST_DIGITS: Final = 18
_LONGEST_CHUNK_HEAD: Final = 1 << 10
_CONTINUE: Final = range(100, 200)
_WITHOUT_BODY: Final = (204, 304)


class HttpError(ConnectionError):
    """What the peer sends is not HTTP, or too long."""


@dataclass(frozen=True)
class Head:
    """Beginning of an answer.

    Attributes:
        status: Status code.
        headers: Values of the headers, by name in lower case.
        is_last: Whether the peer closes the connection after this answer.
    """

    status: int
    headers: Mapping[str, str]
    is_last: bool

    @property
    def is_chunked(self) -> bool:
        """Whether the body has the chunked coding."""
        return self.headers.get("transfer-encoding", "").lower() == "chunked"

    @property
    def length(self) -> int | None:
        """Length of the body in bytes; None if it ends with the connection or its last chunk."""
        if self.status in _WITHOUT_BODY:
            return 0
        text = self.headers.get("content-length", "")
        if self.is_chunked or not (text.isascii() and text.isdigit()):
            return None
        return int(text[:_MOST_DIGITS])


class HttpSocket:
    """A connection on which one request follows the other. It is opened when needed.

    Attributes:
        sock: The socket; None while there is no connection.
        timeout: Longest silence within an answer, in seconds, for the next connection.
    """

    def __init__(self, timeout: float, dial: Callable[[float], socket.socket]) -> None:
        """Create the object, not connected.

        Args:
            timeout: See above.
            dial: Returns a connected socket with this timeout.
        """
        self.sock: socket.socket | None = None
        self.timeout = timeout
        self._dial = dial
        self._unread = bytearray()

    def send(self, method: str, path: str, body: bytes | None) -> None:
        """Send a request whose body, if any, is JSON.

        MSG_NOSIGNAL, because SIGPIPE would end a program that has restored its default action.

        Raises:
            OSError: The peer cannot be reached, or has closed the connection.
        """
        if self.sock is None:
            self.sock = self._dial(self.timeout)
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
        if method != "GET":
            head += f"Content-Length: {len(body or b'')}\r\n"
        if body is not None:
            head += "Content-Type: application/json\r\n"
        self.sock.sendall(f"{head}\r\n".encode() + (body or b""), socket.MSG_NOSIGNAL)

    def head(self) -> Head:
        """Read the beginning of the answer.

        Raises:
            HttpError: It is not the beginning of an answer.
            OSError: The connection broke off.
        """
        while True:
            while (end := self._unread.find(b"\r\n\r\n")) < 0:
                if len(self._unread) > _LONGEST_HEAD or not b"HTTP/".startswith(self._unread[:5]):
                    raise HttpError(f"no answer begins with {bytes(self._unread[:20])!r}")
                if not self._receive():
                    if not self._unread:
                        raise ConnectionResetError("Remote end closed connection without response")
                    raise HttpError("the answer ends in its head")
            head = _parsed(bytes(self._unread[:end]))
            del self._unread[: end + 4]
            if head.status not in _CONTINUE:
                return head

    def body(self, head: Head, largest: int) -> bytes:
        """Read the rest of the answer.

        Raises:
            HttpError: It is incomplete, or has more than `largest` bytes.
            OSError: The connection broke off.
        """
        unchunk = Unchunk() if head.is_chunked else None
        length = head.length
        text = bytearray()
        while True:
            text += self.taken() if unchunk is None else unchunk.feed(self.taken())
            if len(text) > largest:
                raise HttpError(f"the answer has more than {largest} bytes")
            is_end = unchunk.ended if unchunk is not None else len(text) == length
            if is_end:
                break
            if length is not None and len(text) > length:
                raise HttpError("the answer is longer than it says")
            if not self._receive():
                if unchunk is not None or length is not None:
                    raise HttpError(f"the answer ends after {len(text)} bytes")
                break
        if head.is_last or (unchunk is None and length is None):
            self.close()
        return bytes(text)

    def taken(self) -> bytes:
        """Return the bytes that have been received and not read, and count them as read."""
        taken = bytes(self._unread)
        self._unread.clear()
        return taken

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        self._unread.clear()
        if self.sock is not None:
            self.sock.close()
            self.sock = None

    def _receive(self) -> bool:
        """Receive some bytes; return False at the end."""
        assert self.sock is not None
        data = self.sock.recv(_PIECE)
        self._unread += data
        return bool(data)


def _parsed(text: bytes) -> Head:
    first, *lines = text.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    status = rest.partition(" ")[0]
    is_status = len(status) == 3 and status.isascii() and status.isdigit()
    if not version.startswith("HTTP/1.") or not is_status:
        raise HttpError(f"no answer begins with {first[:20]!r}")
    if len(lines) > _MOST_HEADERS:
        raise HttpError(f"the answer has more than {_MOST_HEADERS} headers")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise HttpError(f"this is not a header: {line[:20]!r}")
        headers[name.strip().lower()] = value.strip()
    connection = headers.get("connection", "").lower()
    is_last = "close" in connection or (version == "HTTP/1.0" and "keep-alive" not in connection)
    return Head(int(status), headers, is_last)


class Unchunk:
    """Incremental decoder of HTTP/1.1's chunked coding (RFC 9112, section 7.1).

    Attributes:
        ended: Whether the whole body has been decoded.
    """

    def __init__(self) -> None:
        self.ended = False
        self._data = bytearray()
        self._left = 0
        self._is_last = False

    def feed(self, data: bytes) -> bytes:
        """Return the decoded contents of the next bytes."""
        self._data += data
        contents = bytearray()
        while self._data and not self.ended:
            if self._left:
                piece = self._data[: self._left]
                del self._data[: len(piece)]
                self._left -= len(piece)
                contents += piece
                continue
            head, newline, rest = self._data.partition(b"\n")
            if not newline:
                if len(head) > _LONGEST_CHUNK_HEAD:
                    raise HttpError("the stream has a chunk without a size")
                break
            self._data = rest
            if not head.strip():  # An empty line ends the previous chunk.
                self.ended = self._is_last
            elif not self._is_last:  # Other lines after the last chunk are headers.
                self._left = _chunk_size(bytes(head))
                self._is_last = self._left == 0
        return bytes(contents)


def _chunk_size(head: bytes) -> int:
    digits = head.partition(b";")[0].strip()
    if not digits.isalnum():
        raise HttpError(f"the stream has a chunk of size {digits[:20]!r}")
    try:
        return int(digits, 16)
    except ValueError:
        raise HttpError(f"the stream has a chunk of size {digits[:20]!r}") from None
