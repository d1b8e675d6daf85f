# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Floods of requests that one user sends to stop everyone; as a program, this file is one."""

from __future__ import annotations

import http.client
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
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


@contextmanager
def flood(kind: str, path: object, uid: int, group: int) -> Iterator[None]:
    """Have a user flood a controller for the length of a with statement."""
    process = subprocess.Popen(
        **command("tests.support.floods", kind, path, uid, group),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "flooding\n"
        yield
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


_FLOODS: dict[str, Callable[[str], None]] = {
    "idle connections": lambda path: _connect_for_ever(path, b""),
    "unfinished headers": lambda path: _connect_for_ever(path, _HEAD + _PADDING),
    "unfinished bodies": lambda path: _connect_for_ever(path, _HEAD + _BODY),
    "histories": lambda path: _read_histories(path, MOST_HISTORY),
    # Many more of them, so that what the loop itself does for each one counts.
    "short histories": lambda path: _read_histories(path, 1),
    "submissions": _submit_for_ever,
}
KINDS = tuple(_FLOODS)


def _end_with_the_test() -> None:
    """Kill all processes of the flood if whoever started it is killed."""
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Become the user, and flood."""
    kind, path, uid, group = sys.argv[1:]
    become(int(uid), int(group))
    threading.Thread(target=_end_with_the_test, daemon=True).start()
    print("flooding", flush=True)
    _FLOODS[kind](path)


if __name__ == "__main__":
    main()
