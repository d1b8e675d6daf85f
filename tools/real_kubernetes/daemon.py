# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A program of the cluster that runs in the background, with a log."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

# Seconds that a start may take. A loaded machine is ten times slower than an idle one.
PATIENCE = 300.0


class ClusterError(Exception):
    """Why there is no cluster, in one sentence."""


class Daemon:
    """A program that runs until it is killed.

    Args:
        name: Its name in messages, and that of its log.
        command: The program and its arguments.
        logs: An existing folder; what it prints is appended to a file there.
    """

    def __init__(self, name: str, command: Sequence[str | Path], logs: Path) -> None:
        self.name = name
        self._command = [str(word) for word in command]
        self._log = logs / f"{name}.log"
        self._process = self._start()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def restart(self) -> None:
        """Start it again; it must have ended."""
        self._process = self._start()

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait until something is so that this program must bring about.

        Raises:
            ClusterError: The program ends, or it is not so after PATIENCE.
        """
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            if self._process.poll() is not None:
                raise ClusterError(f"{self.name} has ended: {self._last_line()} ({self._log})")
            if time.monotonic() > deadline:
                raise ClusterError(f"{what} after {PATIENCE:.0f} seconds; see {self._log}")
            time.sleep(0.1)

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C at the terminal is for the command; the cluster ends later.
                start_new_session=True,
            )

    def _last_line(self) -> str:
        lines = self._log.read_text(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "its log is empty")


def quietly(*command: str) -> bool:
    """Run a program without its output; return whether it succeeded."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode == 0


def run(command: str, *words: str | Path) -> str:
    """Run a program, `command` being its first words, and return what it prints.

    Raises:
        ClusterError: It fails.
    """
    whole = [*command.split(), *map(str, words)]
    done = subprocess.run(
        whole, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it says nothing"]
        raise ClusterError(f"`{' '.join(whole)}` fails: {said[-1]}")
    return done.stdout
