# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Workers that join, leave and are killed, and for how long the others pause."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from benchmarks.common.command_line import BenchmarkError
from tf_malleable.cli.elastic.whereabouts import SECRET, Whereabouts, ask
from tf_malleable.elastic.plan import Address
from tf_malleable.model import OperationError

REASONS: Final = ("join", "leave", "lost")
_TFM: Final = [sys.executable, "-m", "tf_malleable_cli", "elastic"]
_SHARD_SECONDS: Final = 0.01
_PATIENCE_SECONDS: Final = 60.0
_REST_SECONDS: Final = 0.3


class _Training:
    """A coordinator and workers."""

    def __init__(self, words: int) -> None:
        secret = secrets.token_bytes(32)
        self._words = words
        self._env = {**os.environ, SECRET: secret.hex()}
        self._coordinator = subprocess.Popen(
            [*_TFM, "coordinator", "--fresh"], env=self._env, stdout=subprocess.PIPE, text=True
        )
        assert self._coordinator.stdout is not None
        self._where = self._coordinator.stdout.readline().strip()
        host, _, port = self._where.rpartition(":")
        self._address = Whereabouts(Address(host, int(port)), secret)
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start a worker and wait until it takes part."""
        words = [*_TFM, "run", "--coordinator", self._where, "--cpus", "1", "--", sys.executable]
        words += ["-m", "benchmarks.elastic.worker", str(self._words), str(_SHARD_SECONDS)]
        self.workers.append(subprocess.Popen(words, env=self._env))
        self.settle()

    def settle(self) -> None:
        """Wait until all workers take part, and nothing else goes on."""

        def is_settled() -> bool:
            status = self.status()
            here = [each for each in status["processes"] if each["state"] == "in the training"]
            return status["phase"] == "steady" and len(here) == len(self.workers)

        wait_until(is_settled)
        time.sleep(_REST_SECONDS)

    def status(self) -> dict[str, Any]:
        """Return what the coordinator says."""
        try:
            return ask(self._address, {"kind": "status"})
        except OperationError as error:
            raise BenchmarkError(str(error)) from None

    def end(self) -> None:
        """Kill all."""
        for process in (*self.workers, self._coordinator):
            process.kill()
            process.wait()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition.

    Raises:
        BenchmarkError: It does not come true.
    """
    end = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise BenchmarkError("workers do not come to rest")
        time.sleep(0.02)


@contextmanager
def _training(words: int) -> Iterator[_Training]:
    found = _Training(words)
    try:
        yield found
    finally:
        found.end()


def measure(words: int, times: int) -> dict[str, list[float]]:
    """Return the pauses of so many joins, leaves and kills, in seconds.

    Args:
        words: Parameters; the state is three times that.
        times: How often each happens, to two workers that become three and two again.
    """
    with _training(words) as training:
        for _ in range(2):
            training.start()
        for _ in range(times):
            for ends in ("terminate", "kill"):
                training.start()
                # The last to come goes, so the first two are those that pause.
                getattr(training.workers.pop(), ends)()
                training.settle()
        found = training.status()["rescales"]
    pauses: dict[str, list[float]] = {reason: [] for reason in REASONS}
    for each in found:
        if each["reason"] in pauses and each["pause_seconds"] is not None:
            pauses[each["reason"]].append(each["pause_seconds"])
    return pauses
