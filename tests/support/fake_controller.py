# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A controller that does what a real one would not do on demand.

It grants what a test tells it, when it tells it, remembers what agents say, and
can answer garbage, break off, be slow or be of another version. Run as a program
it grants CPU 0, notes in a file what it hears, and can be stopped and killed.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any

from tests.support.deadline import DEADLINE

_CREDENTIALS = struct.Struct("iII")


@dataclass(frozen=True)
class Heard:
    """A request: which process sent it, to what path, with what body, and when."""

    pid: int
    path: str
    body: Any
    at: float

    @property
    def kind(self) -> str:
        """Return the last part of the path: "jobs", "acknowledgements" …"""
        return self.path.rpartition("/")[2]


@dataclass
class _State:
    line: bytes = b""
    heard: list[Heard] = field(default_factory=list)
    streams: list[queue.Queue[bytes | None]] = field(default_factory=list)
    connections: set[socket.socket] = field(default_factory=set)
    opened: int = 0
    answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=dict)
    on_heard: Callable[[Heard], None] = lambda heard: None
    changed: threading.Condition = field(default_factory=threading.Condition)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = False
    server: _Server

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        state = self.server.state
        packed = self.connection.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
        pid, _, _ = _CREDENTIALS.unpack(packed)
        self.heard = heard = Heard(pid, self.path, json.loads(body), time.monotonic())
        with state.changed:
            state.heard.append(heard)
            state.changed.notify_all()
        state.on_heard(heard)
        # A test that hears of the request may take the answer back meanwhile.
        if answer := state.answers.get(heard.kind):
            answer(self)
        elif heard.kind == "jobs":
            self.answer(201, {"id": "7", "pid": pid})
        else:
            self.answer(204)

    def do_GET(self):
        state = self.server.state
        if answer := state.answers.get("grants"):
            answer(self)
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        lines: queue.Queue[bytes | None] = queue.Queue()
        with state.changed:
            state.streams.append(lines)
            if state.line:
                lines.put(state.line)
            state.changed.notify_all()
        while (line := lines.get()) is not None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()
        self.close_connection = True

    def answer(self, status, body=None):
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        pass


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, path, state):
        self.state = state
        super().__init__(str(path), _Handler)

    def process_request(self, request, client_address):
        self.state.connections.add(request)
        self.state.opened += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        self.state.connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        pass  # A job that was killed.


class FakeController:
    """Serves at a path until it is closed, or used as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = _State()
        self.serial = 0
        self._server: _Server | None = None

    def __enter__(self) -> FakeController:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Listen, as if started just now."""
        self._server = _Server(self.path, self.state)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Be gone, connections and all, as if killed."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        self.path.unlink(missing_ok=True)
        self.break_off()

    def break_off(self) -> None:
        """Cut all connections there are."""
        with self.state.changed:
            streams, self.state.streams = self.state.streams, []
        for connection in tuple(self.state.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for lines in streams:
            lines.put(None)

    def grant(
        self, cpus: set[int] | list[int], state: str = "running", lent: Any = (), **more: Any
    ) -> int:
        """Grant these CPUs, the line saying more if told so; return its serial number."""
        self.serial += 1
        line = {"serial": self.serial, "state": state, "cpus": sorted(cpus), "lent": sorted(lent)}
        line |= more
        self.send(json.dumps(line).encode() + b"\n", keep=True)
        return self.serial

    def send(self, data: bytes, *, keep: bool = False) -> None:
        """Write into all streams; `keep` makes it the first that new ones get."""
        with self.state.changed:
            if keep:
                self.state.line = data
            for lines in self.state.streams:
                lines.put(data)

    def answer_with(self, kind: str, answer: Callable[[Any], None] | bytes | None) -> None:
        """Answer requests of a kind so: with these bytes and no more, say."""
        if answer is None:
            self.state.answers.pop(kind, None)
        elif isinstance(answer, bytes):
            self.state.answers[kind] = lambda handler: _write_and_hang_up(handler, answer)
        else:
            self.state.answers[kind] = answer

    def heard(self, kind: str) -> list[Heard]:
        """Return what was heard of a kind, in order."""
        return [heard for heard in self.state.heard if heard.kind == kind]

    def wait(self, true: Callable[[], Any], seconds: float = DEADLINE) -> Any:
        """Return what true() returns once that is true; fail if it does not become so."""
        with self.state.changed:
            found = self.state.changed.wait_for(true, seconds)
        assert found, f"not within {seconds} s; heard: {self.state.heard[-5:]}"
        return found

    def wait_for_acknowledgement(self, serial: int, seconds: float = DEADLINE) -> Heard:
        """Return the acknowledgement that this grant has settled."""
        wanted = {"serial": serial, "settled": True}
        return self.wait(
            lambda: next((h for h in self.heard("acknowledgements") if h.body == wanted), None),
            seconds,
        )

    def wait_for_progress(
        self, good: Callable[[dict[str, Any]], Any], seconds: float = DEADLINE
    ) -> Any:
        """Return the first report from now on that is good."""
        seen = len(self.heard("progress"))
        return self.wait(
            lambda: next((h.body for h in self.heard("progress")[seen:] if good(h.body)), None),
            seconds,
        )


def _write_and_hang_up(handler: BaseHTTPRequestHandler, answer: bytes) -> None:
    handler.wfile.write(answer)
    handler.close_connection = True


def main(path: str, notes: str) -> None:
    """Serve until killed."""
    fake = FakeController(Path(path))
    with Path(notes).open("a") as file:

        def note(heard: Heard) -> None:
            file.write(json.dumps([heard.kind, heard.pid, heard.body]) + "\n")
            file.flush()

        fake.state.on_heard = note
        fake.serial = 100 * os.getpid()
        # Only then: an agent that waits for it comes at once, and must be noted.
        with fake:
            fake.grant({0})
            threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
