# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How long a grant takes to become actual while trainings keep all cores busy.

One training is given another number of cores again and again by hand. A second one
gets what is left: under the same controller, which pauses it when nothing is, or
without one, so that it never lets go of any core.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

import psutil

from benchmarks.common.command_line import BenchmarkError, Say
from benchmarks.common.configurations import (
    TOGETHER,
    Configuration,
    Slot,
    command,
    controlled,
    environment,
)
from benchmarks.common.controller import Histogram, controller, histogram
from benchmarks.common.estimates import once
from benchmarks.common.rows import Row, Target
from benchmarks.common.trainings import Training
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.policies import registry
from tf_malleable.workload.private_controller import PrivateController

NAME: Final = "latency"
_CHANGES: Final = 300
# Not always at the same moment of a training step.
_PAUSES_SECONDS: Final = (0.1, 0.133, 0.181)
# To ask more often would keep the controller itself busy.
_POLL_SECONDS: Final = 0.05
_START_SECONDS: Final = 60.0
_STOCK_START_CPU_SECONDS: Final = 6.0
_HISTOGRAM: Final = "tfm_acknowledge_seconds"
_PATIENCE_SECONDS: Final = 10.0
# More than can be done meanwhile: it is ended.
_TRAINING: Final = Training("dense", 10**6, 1024)
_MOST_SECONDS: Final = 0.02


@dataclass(frozen=True)
class Latency:
    """The results beside one kind of training.

    Attributes:
        beside: Description of the other training.
        acknowledged: Seconds from publishing a grant to its acknowledgement, by the
            controller's clock.
    """

    beside: str
    acknowledged: Histogram

    def row(self) -> Row:
        """Return the result as a row with its target."""
        label = f"grant to acknowledged beside a training {self.beside}, p99 at most, s"
        value = once(self.acknowledged.percentile(0.99))
        return Row(NAME, label, "", value, Target(_MOST_SECONDS))

    def as_json(self) -> dict[str, Any]:
        """Return all of it for a file."""
        return asdict(self)


def measure(say: Say) -> list[Latency]:
    """Change the cores of one training while a second one competes."""
    policy = controlled(registry.DEFAULT)
    found = []
    for beside, other in (("under the controller", policy), ("without it", TOGETHER)):
        say(f"{_CHANGES} changes beside a training {beside}")
        with (
            controller(registry.DEFAULT) as started,
            _training(policy, started),
            _training(other, started),
        ):
            found.append(Latency(beside, _change(started)))
    return found


@contextmanager
def _training(configuration: Configuration, started: PrivateController) -> Iterator[None]:
    """Have a training under way meanwhile."""
    process = subprocess.Popen(
        command(_TRAINING, Slot(), configuration),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(Slot(), started.client.socket),
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not _trains(process.pid, configuration, started):
            if process.poll() is not None or time.monotonic() > deadline:
                raise BenchmarkError("a training did not start")
            time.sleep(0.2)
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _trains(pid: int, configuration: Configuration, started: PrivateController) -> bool:
    """Return whether a training is past its start."""
    if configuration.policy is None:
        times = psutil.Process(pid).cpu_times()
        return bool(times.user + times.system > _STOCK_START_CPU_SECONDS)
    jobs = started.client.jobs()
    return any(job.pid == pid and (job.steps_done or 0) > 0 for job in jobs)


def _change(started: PrivateController) -> Histogram:
    """Change the first job's cores again and again; return what acknowledgements took."""
    client = started.client
    job = client.jobs()[0].id
    before = histogram(started, _HISTOGRAM)
    pauses = itertools.cycle(_PAUSES_SECONDS)
    for number, pause in zip(range(_CHANGES), pauses, strict=False):
        cores = 2 - number % 2
        begin = time.monotonic()
        client.ask("PUT", f"/v1/jobs/{job}/cores", JobStatus, {"cores": cores})
        time.sleep(pause)
        while len(client.get(f"/v1/jobs/{job}", JobStatus).actual) != cores:
            if time.monotonic() - begin > _PATIENCE_SECONDS:
                raise BenchmarkError(f"{cores} cores were never actual")
            time.sleep(_POLL_SECONDS)
    return histogram(started, _HISTOGRAM).since(before)
