# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Users of the host, each a process with a uid of its own; as a program, this file is one.

A user does what it reads from stdin, one JSON list of verb and arguments a line, and prints
what came of it. It has a session of its own, as signals may pass within one.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401  # Others may not read root's Python, which loads it late.
import errno
import http.client
import json
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.support import ROOT
from tests.support.controllers import Client
from tests.support.deadline import DEADLINE

JSON_LINES = "application/x-ndjson"


def command(module: str, *arguments: object) -> dict[str, Any]:
    """Return the arguments of Popen() that run a module of the tests in a new session."""
    return {
        "args": [sys.executable, "-m", module, *map(str, arguments)],
        "env": {**os.environ, "PYTHONPATH": str(ROOT)},
        "start_new_session": True,
    }


def become(uid: int, group: int) -> None:
    """Become another user for good, a member of this group only, with as many files as may be."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.setgroups([])
    os.setgid(group)
    os.setuid(uid)


def said_as(uid: int, do: Callable[[], object], group: int | None = None) -> str:
    """Return, as text, what a function returns as another user, or the error it raises."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            if os.geteuid() == 0:
                become(uid, uid if group is None else group)
            said = str(do())
        except Exception as error:  # Whatever it is, the other process tells it.
            said = str(error)
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


class User:
    """A user of the host who talks to daemons, and tries what he should not."""

    def __init__(self, uid: int, group: int, socket: object = "") -> None:
        """Start it.

        Args:
            uid: Its uid.
            group: The only group it is in.
            socket: The controller's, if there is one.
        """
        self.socket = str(socket)
        self.process = subprocess.Popen(
            **command("tests.support.users", uid, group),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def do(self, verb: str, *arguments: object) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([verb, *arguments]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def ask(self, method: str, target: str, body: object = None) -> tuple[int, str]:
        """Return status and text of an answer; of a stream, its first line."""
        status, text = self.do("ask", self.socket, method, target, body)
        return status, text

    def submit(self, **fields: object) -> str:
        """Become a job and return its id."""
        status, text = self.ask("POST", "/v1/jobs", {"name": "test", **fields})
        assert status == 201, text
        return json.loads(text)["id"]

    def follow(self, job: str) -> None:
        """Acknowledge the grants of its own job from now on."""
        assert self.do("follow", self.socket, job) == 200

    def attempt(self, what: str, *arguments: object) -> str | None:
        """Return the name of the error with which something fails; None if it succeeds."""
        return self.do("attempt", what, *map(_plain, arguments))

    def exchange(self, port: int, data: bytes) -> bytes:
        """Return what a port of this host answers to some bytes until it hangs up or is silent."""
        return self.do("exchange", port, data.decode("latin-1")).encode("latin-1")

    def hold(self, port: int, count: int, data: bytes = b"") -> None:
        """Connect to a port of this host so many times, send some bytes on each, and wait."""
        assert self.do("hold", port, count, data.decode("latin-1")) == count

    def __enter__(self) -> User:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate(timeout=DEADLINE)


def _plain(argument: object) -> object:
    return argument if isinstance(argument, int) else str(argument)


# The rest is done by the program.


def _ask(path: str, method: str, target: str, body: object = None) -> tuple[int, str]:
    client = Client(path)
    try:
        client.request(method, target, None if body is None else json.dumps(body))
        with client.getresponse() as answer:
            kind = answer.getheader("Content-Type", "")
            data = answer.readline() if kind.startswith(JSON_LINES) else answer.read()
            return answer.status, data.decode()
    finally:
        client.close()


def _follow(path: str, job: str) -> int:
    watching, telling = Client(path), Client(path)
    watching.request("GET", f"/v1/jobs/{job}/grants")
    assert watching.sock is not None
    watching.sock.settimeout(None)
    answer = watching.getresponse()

    def acknowledge(serial: int) -> None:
        body = json.dumps({"serial": serial})
        telling.request("POST", f"/v1/jobs/{job}/acknowledgements", body)
        telling.getresponse().read()

    def serve() -> None:
        while line := answer.readline():
            grant = json.loads(line)
            if grant["state"] != "running":
                continue
            try:
                acknowledge(grant["serial"])
            except (OSError, http.client.HTTPException):  # It was closed while it was idle.
                telling.close()
                acknowledge(grant["serial"])

    if answer.status == 200:
        threading.Thread(target=serve, daemon=True).start()
    return answer.status


_SILENT_SECONDS = 5.0
_held: list[socket.socket] = []


def _exchange(port: int, data: str) -> str:
    with socket.create_connection(("127.0.0.1", port), DEADLINE) as connection:
        connection.settimeout(_SILENT_SECONDS)
        received = b""
        with suppress(OSError):  # It hangs up, or is silent.
            connection.sendall(data.encode("latin-1"))
            while chunk := connection.recv(65536):
                received += chunk
        return received.decode("latin-1")


def _hold(port: int, count: int, data: str) -> int:
    for _ in range(count):
        _held.append(socket.create_connection(("127.0.0.1", port), DEADLINE))
        with suppress(OSError):  # It has hung up.
            _held[-1].sendall(data.encode("latin-1"))
    return count


_ATTEMPTS = {
    "read": lambda path: os.close(os.open(path, os.O_RDONLY)),
    "write": lambda path: os.close(os.open(path, os.O_WRONLY)),
    "create": lambda path: os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)),
    "list": os.listdir,
    "make folder": os.mkdir,
    "remove folder": os.rmdir,
    "remove": os.unlink,
    "rename": lambda path: os.rename(path, f"{path}.mine"),
    "change mode": lambda path: os.chmod(path, 0o777),
    "signal": os.kill,
    "confine": lambda pid, cpu: os.sched_setaffinity(pid, {cpu}),
    "slow down": lambda pid: os.setpriority(os.PRIO_PROCESS, pid, 19),
}


def _attempt(what: str, *arguments: Any) -> str | None:
    try:
        _ATTEMPTS[what](*arguments)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return None


def main() -> None:
    """Do what stdin says."""
    become(int(sys.argv[1]), int(sys.argv[2]))
    verbs = {
        "ask": _ask,
        "attempt": _attempt,
        "exchange": _exchange,
        "follow": _follow,
        "hold": _hold,
    }
    for line in sys.stdin:
        verb, *arguments = json.loads(line)
        print(json.dumps(verbs[verb](*arguments)), flush=True)


if __name__ == "__main__":
    main()
