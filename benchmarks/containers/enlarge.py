# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One training in a container that gets its second CPU under way: how much that gains."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from benchmarks.common.command_line import Say
from benchmarks.common.controller import controller
from benchmarks.common.estimates import estimate
from benchmarks.common.rows import Row, Target
from benchmarks.common.worker.client import Process, Worker
from benchmarks.containers.place import Place
from tf_malleable.api.schema.messages import JobStatus

NAME: Final = "enlarge"
_STEPS: Final = 400
_ROUNDS: Final = 3
_TARGET: Final = Target(95.0, at_least=True)
_PROCESS: Final = Process("follows", ours=True)
_POLICY: Final = "equal"

Change = Callable[[int], None]


@dataclass(frozen=True)
class Sample:
    """One training with one CPU, one with two, and one enlarged under way.

    Attributes:
        by: Who changed the CPUs.
        at_one: Seconds of the training with one CPU.
        at_two: Seconds of the training with two CPUs.
        enlarged: Seconds of the training that was enlarged.
        steps_before: Number of its steps that were done when this was asked for.
        seconds_before: Seconds it had taken by then.
    """

    by: str
    at_one: float
    at_two: float
    enlarged: float
    steps_before: float
    seconds_before: float

    @property
    def share(self) -> float:
        """The realised part of the ideal gain, which is to be at once as fast as with two."""
        left = 1 - self.steps_before / _STEPS
        ideal = self.seconds_before + left * self.at_two
        # Beside a training on one CPU from the same moment on.
        unchanged = self.seconds_before + left * self.at_one
        return (unchanged - self.enlarged) / (unchanged - ideal)


def measure(place: Place, say: Say) -> list[Sample]:
    """Enlarge trainings by hand, and under a controller."""
    samples = []
    name = place.name()
    with place.worker(
        _PROCESS, ("matmul",), place.followed("-i", "--name", name, "--cpu-quota", "200000")
    ) as worker:
        container = place.client.containers.get(name)

        def quota(cpus: int) -> None:
            container.update(cpu_quota=cpus * 100_000, cpu_period=100_000)

        samples += _rounds("docker update", worker, quota, say)
    with controller(_POLICY) as started:
        prefix = place.followed("-i", *place.job(started.client.socket, place.name()))
        with place.worker(_PROCESS, ("matmul",), prefix) as worker:
            (job,) = started.client.jobs()

            def cores(cpus: int) -> None:
                started.client.ask("PUT", f"/v1/jobs/{job.id}/cores", JobStatus, {"cores": cpus})

            samples += _rounds("controller", worker, cores, say)
    return samples


def _rounds(by: str, worker: Worker, change: Change, say: Say) -> list[Sample]:
    _settle(change, 2)
    worker.ask("prepare_training")
    samples = []
    for number in range(_ROUNDS):
        taken: dict[int, float] = {}
        for cpus in (1, 2) if number % 2 else (2, 1):
            _settle(change, cpus)
            taken[cpus] = _whole(worker.ask("starts", steps=_STEPS))
        samples.append(_enlarged(by, worker, change, taken[1], taken[2]))
        say(f"enlarged by {by}: {samples[-1].share:.1%} of the ideal gain")
    return samples


def _enlarged(by: str, worker: Worker, change: Change, at_one: float, at_two: float) -> Sample:
    _settle(change, 1)
    asked: list[float] = []
    failures: list[Exception] = []

    def enlarge() -> None:
        asked.append(time.monotonic())
        try:
            change(2)
        except Exception as error:  # A thread would only print it.
            failures.append(error)

    timer = threading.Timer(at_one / 3, enlarge)
    timer.start()
    starts = worker.ask("starts", steps=_STEPS)
    timer.join()
    if failures:
        raise failures[0]
    before = float(np.interp(asked[0], starts, np.arange(len(starts))))
    return Sample(by, at_one, at_two, _whole(starts), before, asked[0] - starts[0])


def _whole(starts: list[float]) -> float:
    return starts[-1] - starts[0]


def _settle(change: Change, cpus: int) -> None:
    change(cpus)
    time.sleep(1.0)


def rows(samples: list[Sample]) -> list[Row]:
    """Return the results as rows, each with its target."""
    found = []
    for by in dict.fromkeys(sample.by for sample in samples):
        shares = [100 * sample.share for sample in samples if sample.by == by]
        label = f"enlarged 1 → 2 at a third, by {by}: of the ideal gain"
        found.append(Row(NAME, label, "%", estimate([shares]), _TARGET))
    return found


def as_json(samples: list[Sample]) -> list[dict[str, Any]]:
    """Return the samples for a file."""
    return [{**asdict(sample), "share": sample.share} for sample in samples]
