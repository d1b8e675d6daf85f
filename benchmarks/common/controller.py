# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A controller under measurement, and what it and the kernel count of it."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.common.configurations import environment
from tf_malleable.workload.private_controller import PrivateController, private_controller


@dataclass(frozen=True)
class Histogram:
    """A cumulative histogram.

    Attributes:
        buckets: Number of values up to each bucket's upper end, by that end; the last is inf.
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


@contextmanager
def controller(policy: str, state: Path | None = None) -> Iterator[PrivateController]:
    """Run a controller with this policy for a while, in a clean environment.

    Args:
        policy: Name and options of its policy.
        state: Path of its state file; by default a new one, removed with it.

    Raises:
        OperationError: It does not start.
    """
    options = () if state is None else (f"--state={state}",)
    with private_controller(f"--policy={policy}", *options, environment=environment()) as started:
        yield started


def histogram(started: PrivateController, name: str) -> Histogram:
    """Return one of the controller's histograms, as it is now."""
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    try:
        connection.sock.connect(str(started.client.socket))
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


def cpu_seconds(started: PrivateController) -> float:
    """Return the CPU time of the controller so far."""
    times = psutil.Process(started.pid).cpu_times()
    return float(times.user + times.system)
