# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A controller of our own, on a socket nobody else knows."""

from __future__ import annotations

import http.client
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
from prometheus_client.parser import text_string_to_metric_families

from controller.configurations import TFM, Slot, environment
from tf_malleable.api.connection import Connection

_START_SECONDS: Final = 30.0
_END_SECONDS: Final = 10.0


class HostError(Exception):
    """The controller did not start."""


@dataclass(frozen=True)
class Histogram:
    """How many values were at most so large.

    Attributes:
        buckets: From the upper end of each to the count up to there; the last is inf.
    """

    buckets: dict[float, float]

    @property
    def count(self) -> int:
        """All values."""
        return int(max(self.buckets.values(), default=0))

    def since(self, before: Histogram) -> Histogram:
        """Return it without the values of an earlier time."""
        return Histogram({end: n - before.buckets[end] for end, n in self.buckets.items()})

    def percentile(self, share: float) -> float:
        """Return the end of the bucket in which a percentile is, such as 0.99."""
        return min(end for end, count in self.buckets.items() if count >= share * self.count)


@dataclass(frozen=True)
class Host:
    """A running controller: its socket and its process."""

    socket: Path
    pid: int

    def ask(self, method: str, path: str, body: object | None = None) -> Any:
        """Send a request and return the answer."""
        connection = Connection(self.socket)
        try:
            return connection.request(method, path, body)
        finally:
            connection.close()

    def histogram(self, name: str) -> Histogram:
        """Return one of the controller's histograms, as it is now."""
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.connect(str(self.socket))
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        buckets = {
            float(sample.labels["le"]): sample.value
            for family in text_string_to_metric_families(text)
            if family.name == name
            for sample in family.samples
            if sample.name == f"{name}_bucket"
        }
        return Histogram(buckets)

    def cpu_seconds(self) -> float:
        """Return the CPU time of the controller so far."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)


@contextmanager
def controller(policy: str, state: Path | None = None) -> Iterator[Host]:
    """Start a controller with this policy and end it.

    Args:
        policy: Its policy.
        state: Its state file; by default a new one, removed with it.

    Raises:
        HostError: It does not start.
    """
    with tempfile.TemporaryDirectory(prefix="tfm-") as folder:
        path = Path(folder, "controller.sock")
        log = Path(folder, "log")
        state = state or Path(folder, "state")
        arguments = ["--policy", policy, "--socket", path, "--state", state]
        with log.open("wb") as file:
            process = subprocess.Popen(
                [TFM, "controller", *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment(Slot(), None),
                start_new_session=True,
            )
        host = Host(path, process.pid)
        try:
            _wait_until_up(host, process, log)
            yield host
        finally:
            process.terminate()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_up(host: Host, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        try:
            host.ask("GET", "/v1")
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.05)
        else:
            return
    raise HostError(f"the controller did not start: {log.read_text(errors='replace').strip()}")
