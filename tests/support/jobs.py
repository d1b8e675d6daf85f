# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Jobs for the tests: real Python processes that a controller is told of, or is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import tf_malleable
from tests.support.deadline import DEADLINE
from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.api.schema.join import JOIN, Join
from tf_malleable.linux.processes.procfs import read_stat

PRELOAD = Path(tf_malleable.__file__).parent / "preload"

# The first and the last CPU there is, which can be the same.
CPUS = sorted(os.sched_getaffinity(0))
FIRST, LAST = {CPUS[0]}, {CPUS[-1]}
ALL = set(CPUS)


def has_ended(pid: int) -> bool:
    """Return whether a process is no more, or only waits to be reaped."""
    stat = read_stat(pid)
    return stat is None or stat.state in "ZX"


class Job:
    """A Python that runs a program, as `tfm run` would start it; killed at the end.

    It may be told things by lines on its standard input and answers by lines too.
    """

    def __init__(self, program: str, socket: Path | None, *arguments: str, **env: str) -> None:
        """Start it.

        Args:
            program: Python source.
            socket: Socket of the controller it shall join; None for none.
            arguments: sys.argv[1:].
            env: Added to the environment.
        """
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("TF_")}
        if socket is not None:
            env[JOIN] = Join(str(socket), JobRequest("test")).encode()
            paths = [str(PRELOAD), *filter(None, [os.environ.get("PYTHONPATH")])]
            env["PYTHONPATH"] = os.pathsep.join(paths)
        # Since 3.12 Python warns of a fork beside threads, which any program with TensorFlow has.
        ignored = ["ignore:This process:DeprecationWarning"]
        warnings = [*filter(None, [os.environ.get("PYTHONWARNINGS")]), *ignored]
        inherited["PYTHONWARNINGS"] = ",".join(warnings)
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**inherited, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", **env},
        )
        self.pid = self.process.pid
        self._killer = threading.Timer(DEADLINE, self.process.kill)
        self._killer.start()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self._killer.cancel()
        self.process.kill()
        self.process.communicate()

    def ask(self, line: str = "") -> str:
        """Say a line and return the answer."""
        self.tell(line)
        return self.hear()

    def tell(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        """Return the next line it prints; all it has said on stderr if there is none."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.end()
        return line.rstrip("\n")

    def end(self, say: str = "") -> tuple[int, str, str]:
        """Say something last; return its exit code and the rest of what it printed."""
        out, err = self.process.communicate(say, timeout=DEADLINE)
        return self.process.returncode, out, err

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def affinities(self) -> set[frozenset[int]]:
        """Return the CPUs that its threads may use, each set once."""
        found = set()
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            with suppress(ProcessLookupError):  # It may end in between.
                found.add(frozenset(os.sched_getaffinity(int(thread))))
        return found

    def is_on(self, cpus: set[int]) -> bool:
        """Return whether all its threads may use these CPUs and no others.

        The agent's own thread follows right after the acknowledgement.
        """
        deadline = time.monotonic() + DEADLINE
        while not (found := self.affinities() == {frozenset(cpus)}):
            if time.monotonic() > deadline:
                break
            time.sleep(0.001)
        return found
