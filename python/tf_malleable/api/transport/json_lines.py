# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Stream of JSON lines that can be read with a time limit.

http.client reads the headers. Reading the body with it could block in the middle of a
chunk, so this module decodes the chunked coding itself.
"""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse
from typing import Any, Final

_LONGEST_LINE: Final = 1 << 20
_LONGEST_CHUNK_HEAD: Final = 1 << 10
_PIECE: Final = 1 << 16


class Lines(Iterator[dict[str, Any]]):
    """Iterator over JSON objects, one per line, until the stream ends."""

    def __init__(self, client: HTTPConnection, answer: HTTPResponse, source: socket.socket) -> None:
        self._client = client
        self._answer = answer
        self._socket = source
        self._unchunk = _Unchunk() if answer.chunked else None
        self._text = bytearray()
        self._poll = select.poll()
        self._poll.register(source, select.POLLIN)
        # Bytes that arrived with the headers are in the answer's buffer. With a
        # non-blocking socket, peek() returns them without waiting for more.
        timeout = source.gettimeout()
        source.settimeout(0)
        self._take(answer.fp.peek())
        source.settimeout(timeout)

    def next_within(self, seconds: float | None) -> dict[str, Any] | None:
        """Return the next line; None if none arrives in time.

        Args:
            seconds: Longest wait; 0 returns only a line that has already arrived, None waits
                for ever.

        Raises:
            EOFError: The stream has ended normally.
            OSError: The stream broke off, or a line is not a JSON object.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while (line := self._line()) is None:
            if self._unchunk is not None and self._unchunk.ended:
                raise EOFError("the stream has ended")
            if not self._poll.poll(_milliseconds_until(until)):
                return None
            data = self._socket.recv(_PIECE)
            if not data:
                if self._unchunk is None:
                    raise EOFError("the stream has ended")
                raise ConnectionResetError("the stream broke off")
            self._take(data)
        return line

    def __next__(self) -> dict[str, Any]:
        try:
            line = self.next_within(None)
        except EOFError:
            raise StopIteration from None
        assert line is not None
        return line

    def end(self) -> None:
        """Make a call of next_within() in another thread fail at once."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the stream and its connection."""
        self._answer.close()
        self._client.close()
        self._socket.close()

    def _take(self, data: bytes) -> None:
        self._text += data if self._unchunk is None else self._unchunk.feed(data)

    def _line(self) -> dict[str, Any] | None:
        end = self._text.find(b"\n")
        if max(end, len(self._text) if end < 0 else 0) > _LONGEST_LINE:
            raise ConnectionError(f"the stream has a line of more than {_LONGEST_LINE} bytes")
        if end < 0:
            return None
        text = bytes(self._text[:end])
        del self._text[: end + 1]
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        if not isinstance(line, dict):
            raise ConnectionError(f"this line is not a JSON object: {text[:80]!r}")
        return line


class _Unchunk:
    """Incremental decoder of HTTP/1.1's chunked coding (RFC 9112, section 7.1)."""

    def __init__(self) -> None:
        self.ended = False
        self._data = bytearray()
        self._left = 0

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
                    raise ConnectionError("the stream has a chunk without a size")
                break
            self._data = rest
            if head.strip():  # An empty line ends the previous chunk.
                self._left = _chunk_size(bytes(head))
                self.ended = self._left == 0
        return bytes(contents)


def _chunk_size(head: bytes) -> int:
    digits = head.partition(b";")[0].strip()
    if not digits.isalnum():
        raise ConnectionError(f"the stream has a chunk of size {digits[:20]!r}")
    try:
        return int(digits, 16)
    except ValueError:
        raise ConnectionError(f"the stream has a chunk of size {digits[:20]!r}") from None


def _milliseconds_until(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic()) * 1000
