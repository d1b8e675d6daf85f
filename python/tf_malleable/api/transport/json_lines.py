# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Stream of JSON lines that can be read with a time limit."""

from __future__ import annotations

import json
import select
import socket
import time
from contextlib import suppress

from tf_malleable.api.transport.http_exchange import Head, HttpSocket, Unchunk

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from typing import Any, Final

_LONGEST_LINE: Final = 1 << 20
_PIECE: Final = 1 << 16


class Lines:
    """Iterator over JSON objects, one per line, until the stream ends."""

    def __init__(self, client: HttpSocket, head: Head) -> None:
        """Create the iterator.

        Args:
            client: The connection, which this object closes.
            head: Head of the answer; nothing else of it has been read.
        """
        assert client.sock is not None
        self._client = client
        self._socket = client.sock
        self._unchunk = Unchunk() if head.is_chunked else None
        self._text = bytearray()
        self._poll = select.poll()
        self._poll.register(client.sock, select.POLLIN)
        self._take(client.taken())

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

    def __iter__(self) -> Lines:
        return self

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
        self._client.close()

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
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict):
            raise ConnectionError(f"this line is not a JSON object: {text[:80]!r}")
        return line


def _milliseconds_until(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic()) * 1000
