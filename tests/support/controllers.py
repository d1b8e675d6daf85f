# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Real controllers, clients and jobs for tests; as a program, this module is a job.

A job sends what it reads from stdin, one JSON list of method, path and body a
line, and prints what is answered. So a test can speak as a process of the job.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support import ROOT
from tests.support.deadline import DEADLINE
from tf_malleable.api.transport.connection import connect

TFM = str(Path(sys.executable).parent / "tfm")


class Client(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str | Path) -> None:
        super().__init__("localhost", timeout=DEADLINE)
        self.path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        connect(self.sock, self.path, DEADLINE)


def ask(path: str | Path, method: str, target: str, body: object = None) -> tuple[int, Any]:
    """Return status and decoded answer of one request on a connection of its own."""
    client = Client(path)
    try:
        client.request(method, target, None if body is None else json.dumps(body))
        answer = client.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None
    finally:
        client.close()


def raw(path: str | Path, data: bytes) -> bytes:
    """Return all that is answered to these bytes until the server hangs up."""
    with socket.socket(socket.AF_UNIX) as connection:
        connect(connection, str(path), DEADLINE)
        received = b""
        with suppress(BrokenPipeError):  # It hung up before it had read everything,
            connection.sendall(data)
        with suppress(ConnectionResetError):  # but may have answered first.
            while chunk := connection.recv(65536):
                received += chunk
        return received


def wait_for(condition: Callable[[], Any], seconds: float = DEADLINE) -> Any:
    """Return what a condition says as soon as that is true."""
    end = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def start_tfm(*arguments: str | Path, **options: Any) -> Any:
    """Return tfm as a process, forked where that makes no difference; see tests.support.zygote."""
    from tests.support import zygote  # Which this file does not find as a program.

    environment = options.get("env") or os.environ
    read_at_import = (
        "PYTHONPATH",
        "TF_MALLEABLE_FOLLOW_CGROUP",
        "TF_MALLEABLE_MAX_THREADS",
        "TF_MALLEABLE_THREADS",
    )
    is_usual = all(environment.get(name) == os.environ.get(name) for name in read_at_import)
    if is_usual and options.keys() <= {"env", "cwd", "stdin", "stdout", "stderr", "text"}:
        popen = zygote.popen("tfm")
        return popen([sys.executable, TFM, *map(str, arguments)], **{"cwd": Path.cwd(), **options})
    return subprocess.Popen([TFM, *arguments], **options)


class Controller:
    """A tfm controller process that is ready."""

    def __init__(self, directory: Path, *options: str, **more: Any) -> None:
        self.socket = directory / "run" / "controller.sock"
        self.state = directory / "controller.db"
        places = ["--socket", str(self.socket), "--state", str(self.state)]
        self.process = start_tfm(
            "controller",
            *places,
            *options,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )
        assert self.process.stderr is not None
        said = []
        # One that finds the jobs of another may first say what has become of them.
        while (line := self.process.stderr.readline()) and "listening at" not in line:
            said.append(line)
        self.ready = line
        assert self.ready, "".join(said)

    @property
    def pid(self) -> int:
        return self.process.pid

    def ask(self, method: str, target: str, body: object = None) -> tuple[int, Any]:
        return ask(self.socket, method, target, body)

    def get(self, target: str) -> Any:
        status, answer = self.ask("GET", target)
        assert status == 200, answer
        return answer

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Return exit code and what was logged since it was ready."""
        self.process.send_signal(number)
        _, text = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, text

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))


@contextmanager
def controller(directory: Path, *options: str, **more: Any) -> Iterator[Controller]:
    """Run a controller for the length of a with statement."""
    running = Controller(directory, *options, **more)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.communicate(timeout=DEADLINE)


class Speaker:
    """A process that says to a controller what it is told to, and can become a job."""

    def __init__(self, path: str | Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-s", "-m", __name__, str(path)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def ask(self, method: str, target: str, body: object = None) -> tuple[int, Any]:
        """Return what the controller answers to a request from this process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([method, target, body]) + "\n")
        self.process.stdin.flush()
        status, answer = json.loads(self.process.stdout.readline())
        return status, answer

    def submit(self, **fields: Any) -> str:
        """Become a job and return its id."""
        status, answer = self.ask("POST", "/v1/jobs", {"name": "test", **fields})
        assert status == 201, answer
        return answer["id"]

    def letter(self) -> str:
        """Return the state of its process as /proc has it: T is stopped."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=DEADLINE)


@contextmanager
def job(path: str | Path) -> Iterator[Speaker]:
    """Run a process that can become a job for the length of a with statement."""
    running = Speaker(path)
    try:
        yield running
    finally:
        running.end()


def main() -> None:
    """Send what stdin says."""
    for line in sys.stdin:
        method, target, body = json.loads(line)
        print(json.dumps(ask(sys.argv[1], method, target, body)), flush=True)


if __name__ == "__main__":
    main()
