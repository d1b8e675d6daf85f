# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Many jobs at one controller: does it lose one, what does it cost, how fast is it?"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import policies

from controller import host
from controller.bars import Verdict
from controller.configurations import controlled
from controller.runner import Outcome, Runner
from controller.workloads import Job
from tf_malleable.policies import registry

NAME: Final = "load"
_JOBS: Final = 128
_TENSORFLOW_EVERY: Final = 16
_ARRIVAL_SECONDS: Final = 0.1
_LARGE: Final = "10,000 on 128, going"
_REPEATS: Final = 9

_MOST_CPU: Final = 0.02
_MOST_DECISION_SECONDS: Final = 0.005
_MOST_LARGE_SECONDS: Final = 0.1


@dataclass(frozen=True)
class Load:
    """What came out.

    Attributes:
        outcomes: Of the jobs.
        forgotten: Jobs that are missing in the controller's history.
        seconds: How long it took.
        controller_cpu: CPUs the controller kept busy meanwhile, on average.
        decisions: How many it made, by the time they took, in seconds.
        large: Seconds the default policy took for 10,000 jobs, each time.
    """

    outcomes: tuple[Outcome, ...]
    forgotten: int
    seconds: float
    controller_cpu: float
    decisions: host.Histogram
    large: tuple[float, ...]

    @property
    def failures(self) -> int:
        """Jobs that failed or were lost."""
        return sum(outcome.failed for outcome in self.outcomes) + self.forgotten

    def verdicts(self) -> list[Verdict]:
        """Return how this is against the bars."""
        p99 = self.decisions.percentile(0.99)
        large = sorted(self.large)[len(self.large) // 2]
        return [
            Verdict(NAME, f"failures of {len(self.outcomes)} jobs", self.failures, 0),
            Verdict(NAME, "CPUs used by the controller", self.controller_cpu, _MOST_CPU),
            Verdict(NAME, "decision, p99 at most, s", p99, _MOST_DECISION_SECONDS),
            Verdict(NAME, "allocate 10,000 jobs, median, s", large, _MOST_LARGE_SECONDS),
        ]

    def as_json(self) -> dict[str, Any]:
        """Return all of it for a file."""
        return asdict(self)


def measure(say: Callable[[str], None]) -> Load:
    """Run 128 jobs, 8 of them TensorFlow's, under the default policy."""
    say(f"{_JOBS} jobs, one every {_ARRIVAL_SECONDS} s")
    with (
        tempfile.TemporaryDirectory(prefix="tfm-") as folder,
        host.controller(registry.DEFAULT) as started,
    ):
        begin, cpu = time.monotonic(), started.cpu_seconds()
        runner = Runner(controlled(registry.DEFAULT), Path(folder), started.socket)
        outcomes = runner.run(_jobs())
        seconds = time.monotonic() - begin
        cpu = started.cpu_seconds() - cpu
        history = started.ask("GET", f"/v1/history?limit={2 * _JOBS}&spans=false")
        decisions = started.histogram("tfm_decision_seconds")
    say(f"  took {seconds:.0f} s; {decisions.count} decisions")
    return Load(
        outcomes=tuple(outcomes),
        forgotten=_JOBS - len(history["jobs"]),
        seconds=seconds,
        controller_cpu=cpu / seconds,
        decisions=decisions,
        large=tuple(_large()),
    )


def _jobs() -> list[Job]:
    return [
        Job("dense", 64, 512, number * _ARRIVAL_SECONDS)
        if number % _TENSORFLOW_EVERY == 0
        else Job("tiny", 40, 300, number * _ARRIVAL_SECONDS, joins=True)
        for number in range(_JOBS)
    ]


def _large() -> list[float]:
    situation = policies.SITUATIONS[_LARGE]()
    found = policies.measure(registry.create(registry.DEFAULT), situation, _REPEATS)
    return [milliseconds / 1e3 for milliseconds in found]
