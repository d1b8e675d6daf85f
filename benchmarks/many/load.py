# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Many jobs at one controller: does it lose one, what does it cost, how fast is it?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.common.command_line import Say
from benchmarks.common.configurations import controlled
from benchmarks.common.controller import Histogram, controller, cpu_seconds, histogram
from benchmarks.common.estimates import estimate, once
from benchmarks.common.rows import Row, Target
from benchmarks.common.runs import Outcome, run_trainings
from benchmarks.common.trainings import Training
from benchmarks.many import decisions
from tf_malleable.api.schema.history import History
from tf_malleable.policies import registry

NAME: Final = "load"
_JOBS: Final = 128
_TENSORFLOW_EVERY: Final = 16
ARRIVAL_SECONDS: Final = 0.1
_LARGE: Final = "10,000 on 128, going"
_REPEATS: Final = 9

_MOST_CPU: Final = 0.02
_MOST_DECISION_SECONDS: Final = 0.005
_MOST_LARGE_SECONDS: Final = 0.1


@dataclass(frozen=True)
class Load:
    """The results.

    Attributes:
        outcomes: Outcomes of the jobs.
        forgotten: Number of jobs that are missing in the controller's history.
        seconds: Seconds it took.
        controller_cpu: CPUs the controller kept busy meanwhile, on average.
        decisions: Number of decisions it made, by the seconds they took.
        acknowledged: Number of grants that were acknowledged, by the seconds that this took.
        large: Seconds the default policy took for 10,000 jobs, each time.
    """

    outcomes: tuple[Outcome, ...]
    forgotten: int
    seconds: float
    controller_cpu: float
    decisions: Histogram
    acknowledged: Histogram
    large: tuple[float, ...]

    @property
    def failures(self) -> int:
        """Jobs that failed or were lost."""
        return sum(outcome.failed for outcome in self.outcomes) + self.forgotten

    def rows(self) -> list[Row]:
        """Return the results as rows, each with its target."""
        failures, p99 = float(self.failures), self.decisions.percentile(0.99)
        found = (
            (f"failures of {len(self.outcomes)} jobs", once(failures), 0.0),
            ("CPUs used by the controller", once(self.controller_cpu), _MOST_CPU),
            ("decision, p99 at most, s", once(p99), _MOST_DECISION_SECONDS),
            ("allocate 10,000 jobs, median, s", estimate([self.large]), _MOST_LARGE_SECONDS),
        )
        return [Row(NAME, label, "", value, Target(most)) for label, value, most in found]

    def as_json(self) -> dict[str, Any]:
        """Return all of it for a file."""
        return asdict(self)


def measure(say: Say, jobs: Sequence[Training] | None = None) -> Load:
    """Run jobs under the default policy; by default 128, 8 of them TensorFlow's."""
    jobs = _jobs() if jobs is None else jobs
    say(f"{len(jobs)} jobs, one every {ARRIVAL_SECONDS} s")
    with controller(registry.DEFAULT) as started:
        begin, cpu = time.monotonic(), cpu_seconds(started)
        outcomes = run_trainings(jobs, controlled(registry.DEFAULT), started.client)
        seconds = time.monotonic() - begin
        cpu = cpu_seconds(started) - cpu
        history = started.client.get(f"/v1/history?limit={2 * len(jobs)}&spans=false", History)
        made = histogram(started, "tfm_decision_seconds")
        acknowledged = histogram(started, "tfm_acknowledge_seconds")
    say(f"  took {seconds:.0f} s; {made.count} decisions")
    return Load(
        outcomes=outcomes,
        forgotten=len(jobs) - len(history.jobs),
        seconds=seconds,
        controller_cpu=cpu / seconds,
        decisions=made,
        acknowledged=acknowledged,
        large=tuple(_large()),
    )


def _jobs() -> list[Training]:
    return [
        Training("dense", 64, 512, number * ARRIVAL_SECONDS)
        if number % _TENSORFLOW_EVERY == 0
        else Training("tiny", 40, 300, number * ARRIVAL_SECONDS, joins=True)
        for number in range(_JOBS)
    ]


def _large() -> list[float]:
    situation = decisions.SITUATIONS[_LARGE]()
    found = decisions.measure(registry.create(registry.DEFAULT), situation, _REPEATS)
    return [milliseconds / 1e3 for milliseconds in found]
