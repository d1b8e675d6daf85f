# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Floods of requests that one user sends to stop everyone; as a program, this file is one."""

from __future__ import annotations

import http.client
import mmap
import os
import re
import resource
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.support.controllers import Client, ask
from tests.support.deadline import DEADLINE
from tests.support.users import become, command
from tf_malleable.api.schema.history import MOST_HISTORY

_HEAD = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
_PADDING = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 4000) for number in range(4))
_BODY = b"Content-Length: 100001\r\n\r\n" + b" " * 100_000
# More than a controller lets one user have.
_MOST_CONNECTIONS = 3000
_AT_ONCE = 4
_COUNT = struct.Struct("q")


class Flood:
    """A flood that goes on."""

    def __init__(self, counter: int) -> None:
        self._count = mmap.mmap(counter, _COUNT.size, access=mmap.ACCESS_READ)

    def answers(self) -> int:
        """Return how many of its requests were answered; only of those that count them."""
        return int(_COUNT.unpack(self._count[:])[0])


@contextmanager
def flood(kind: str, path: object, uid: int, group: int) -> Iterator[Flood]:
    """Have a user flood a controller for the length of a with statement."""
    with tempfile.TemporaryFile() as counter:
        counter.truncate(_COUNT.size)
        process = subprocess.Popen(
            **command("tests.support.floods", kind, path, uid, group, counter.fileno()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[counter.fileno()],
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "flooding\n"
            yield Flood(counter.fileno())
            assert process.poll() is None, "the flood has ended by itself"
        finally:
            # Also those of its processes that are jobs, or are stopped.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=DEADLINE)


def _connect_for_ever(path: str, data: bytes) -> None:
    """Open connections, send this on each, and leave them alone."""
    most = min(_MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 100)
    held: deque[socket.socket] = deque()
    while True:
        if len(held) >= most:
            held.popleft().close()
        held.append(socket.socket(socket.AF_UNIX))
        held[-1].settimeout(1.0)
        with suppress(OSError):  # It is refused, or hung up on.
            held[-1].connect(path)
            held[-1].sendall(data)


def _in_threads(task: Callable[[], None]) -> None:
    threads = [threading.Thread(target=task) for _ in range(_AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _read_histories(path: str, limit: int) -> None:
    def read() -> None:
        while True:
            client = Client(path)
            with suppress(OSError, http.client.HTTPException):
                client.request("GET", f"/v1/history?limit={limit}&spans=true")
                client.getresponse().read()
            client.close()

    _in_threads(read)


def _submit_for_ever(path: str) -> None:
    """Submit jobs that end at once, each from a process of its own."""
    for _ in range(_AT_ONCE - 1):
        if os.fork() == 0:
            break
    while True:
        child = os.fork()
        if child == 0:
            with suppress(OSError, http.client.HTTPException, ValueError):
                ask(path, "POST", "/v1/jobs", {"name": "flood", "priority": 1000, "weight": 1000})
            os._exit(0)
        os.waitpid(child, 0)


def _have_jobs(path: str, number: int) -> None:
    """Make this many children jobs, which wait while another job has one of two cores."""
    for _ in range(number):
        if os.fork() == 0:
            ask(path, "POST", "/v1/jobs", {"name": "flood", "min": 2})
            signal.pause()
            os._exit(0)
    while True:
        _, jobs = ask(path, "GET", "/v1/jobs")
        if sum(each["name"] == "flood" for each in jobs["jobs"]) == number:
            return
        time.sleep(0.1)


class _Asking:
    """A connection that asks again as soon as it is answered."""

    def __init__(self, path: str, request: bytes) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self._path, self._request = path, request
        self._left: int | None = None
        self.socket.settimeout(DEADLINE)
        self.socket.connect(path)
        self.socket.sendall(request)

    def read(self) -> bool:
        """Return whether an answer is complete, after which the next request is sent."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError
        if self._left is None:
            head, _, data = data.partition(b"\r\n\r\n")
            found = re.search(rb"(?i)content-length: (\d+)", head)
            self._left = int(found[1]) if found else 0
        self._left -= len(data)
        if self._left > 0:
            return False
        self._left = None
        self.socket.sendall(self._request)
        return True


def _ask_for_ever(path: str, target: str, connections: int) -> None:
    """Ask on many connections at once, all of them all the time."""
    request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    count = mmap.mmap(int(sys.argv[5]), _COUNT.size)
    number = 0
    with selectors.DefaultSelector() as selector:

        def add() -> None:
            with suppress(OSError):  # Opening too many is refused; another one is tried later.
                one = _Asking(path, request)
                selector.register(one.socket, selectors.EVENT_READ, one)

        while True:
            if len(selector.get_map()) < connections:
                add()
            for key, _ in selector.select(0.1):
                try:
                    number += key.data.read()
                except OSError:
                    selector.unregister(key.fileobj)
                    key.data.socket.close()
                count[:] = _COUNT.pack(number)


def _ask_for_jobs(path: str, jobs: int, connections: int) -> None:
    _have_jobs(path, jobs)
    _ask_for_ever(path, "/v1/jobs", connections)


_FLOODS: dict[str, Callable[[str], None]] = {
    "idle connections": lambda path: _connect_for_ever(path, b""),
    "unfinished headers": lambda path: _connect_for_ever(path, _HEAD + _PADDING),
    "unfinished bodies": lambda path: _connect_for_ever(path, _HEAD + _BODY),
    "histories": lambda path: _read_histories(path, MOST_HISTORY),
    # Many more of them, so that what the loop itself does for each one counts.
    "short histories": lambda path: _read_histories(path, 1),
    "submissions": _submit_for_ever,
    "status requests": lambda path: _ask_for_jobs(path, 60, 300),
    "more status requests": lambda path: _ask_for_jobs(path, 150, 900),
    "metrics": lambda path: _ask_for_ever(path, "/metrics", 300),
    "forecasts": lambda path: _ask_for_ever(path, "/v1/policy/preview?policy=equal", 300),
}
KINDS = tuple(_FLOODS)


def _end_with_the_test() -> None:
    """Kill all processes of the flood if whoever started it is killed."""
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Become the user, and flood."""
    kind, path, uid, group = sys.argv[1:5]
    become(int(uid), int(group))
    threading.Thread(target=_end_with_the_test, daemon=True).start()
    print("flooding", flush=True)
    _FLOODS[kind](path)


if __name__ == "__main__":
    main()
