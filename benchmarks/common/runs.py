# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Runs of workloads in configurations, and their times."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import Any, Final, Literal

from benchmarks.common.command_line import Say
from benchmarks.common.configurations import Command, Configuration, Slot, command, environment
from benchmarks.common.rows import aligned
from benchmarks.common.trainings import Training
from tf_malleable.api.transport.client import Client
from tf_malleable.workload.metrics import Finished
from tf_malleable.workload.plan import PlannedJob
from tf_malleable.workload.runner import Start, run_jobs

Metric = Literal["makespan", "mean turnaround"]
METRICS: Final[tuple[Metric, ...]] = ("makespan", "mean turnaround")

_STEPS: Final = re.compile(r"(\d+) steps")
_LAST_WORDS: Final = 500


@dataclass(frozen=True)
class Outcome:
    """What became of a training. Times are seconds after the first arrival.

    Attributes:
        name: Name of the training.
        arrival: Time when it arrived.
        started: Time when its process was started.
        ended: Time when its process was gone.
        exit_code: Exit code as in a shell.
        steps: Number of training steps it says it has done; None if it says nothing.
        wanted: Number of training steps it was to do.
        cpu_seconds: CPU time of its process, in seconds.
        last_words: End of what it wrote, if it failed.
    """

    name: str
    arrival: float
    started: float
    ended: float
    exit_code: int
    steps: int | None
    wanted: int
    cpu_seconds: float
    last_words: str = ""

    @property
    def failed(self) -> bool:
        """True unless it ended well and did all it was to do."""
        return self.exit_code != 0 or self.steps != self.wanted


@dataclass(frozen=True)
class Run:
    """One workload run once in one configuration."""

    round: int
    workload: str
    configuration: str
    outcomes: tuple[Outcome, ...]

    @property
    def makespan(self) -> float:
        """Seconds from the first arrival to the last end."""
        return max(o.ended for o in self.outcomes) - min(o.arrival for o in self.outcomes)

    @property
    def mean_turnaround(self) -> float:
        """Seconds from a training's arrival to its end, on average."""
        return mean(o.ended - o.arrival for o in self.outcomes)

    @property
    def cpu_seconds(self) -> float:
        """CPU time of all trainings together."""
        return sum(o.cpu_seconds for o in self.outcomes)

    @property
    def failures(self) -> int:
        """Trainings that ended badly or too early."""
        return sum(o.failed for o in self.outcomes)

    def value(self, metric: Metric) -> float:
        """Return one of its metrics, in seconds."""
        return self.makespan if metric == "makespan" else self.mean_turnaround

    def as_json(self) -> dict[str, Any]:
        """Return it with all that follows from it."""
        return {
            **asdict(self),
            "makespan": self.makespan,
            "mean_turnaround": self.mean_turnaround,
            "cpu_seconds": self.cpu_seconds,
            "failures": self.failures,
        }

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> Run:
        """Return what as_json() said."""
        outcomes = tuple(Outcome(**each) for each in said["outcomes"])
        return cls(said["round"], said["workload"], said["configuration"], outcomes)

    def tell(self, say: Say) -> None:
        """Say in a line what came out, and in one more of each failure."""
        say(
            f"  {self.workload}  {self.configuration:21} makespan {self.makespan:6.1f} s,"
            f" mean turnaround {self.mean_turnaround:6.1f} s, failures {self.failures}"
        )
        for outcome in self.outcomes:
            if outcome.failed:
                say(f"     {outcome.name}: exit code {outcome.exit_code}: {outcome.last_words}")


def run_trainings(
    trainings: Sequence[Training],
    configuration: Configuration,
    controller: Client | None,
    command: Command = command,
) -> tuple[Outcome, ...]:
    """Run trainings, each at its arrival; return their outcomes in order of their ends."""
    slots = configuration.slots
    planned = {training.planned: training for training in trainings}

    def launch(job: PlannedJob, slot: int, id_file: Path) -> Start:
        place = Slot() if slots is None else slots[slot]
        socket = None if controller is None else controller.socket
        return Start(command(planned[job], place, configuration), environment(place, socket))

    with tempfile.TemporaryDirectory(prefix="tfm-") as folder:
        begin = time.time()
        finished = run_jobs(
            [training.planned for training in trainings],
            out=Path(folder),
            controller=controller,
            launch=launch,
            slots=None if slots is None else len(slots),
        )
        return tuple(_outcome(each, planned[each.job], begin) for each in finished)


def _outcome(finished: Finished, training: Training, begin: float) -> Outcome:
    text = finished.log.read_text(errors="replace")
    said = _STEPS.findall(text)
    steps = int(said[-1]) if said else None
    outcome = Outcome(
        name=training.name,
        arrival=training.arrival,
        started=finished.submitted - begin,
        ended=finished.ended - begin,
        exit_code=finished.exit_code,
        steps=steps,
        wanted=training.steps,
        cpu_seconds=finished.cpu_seconds,
    )
    return replace(outcome, last_words=text[-_LAST_WORDS:]) if outcome.failed else outcome


@dataclass(frozen=True)
class Table:
    """All runs, to be asked for medians."""

    runs: tuple[Run, ...]

    def of(self, workload: str, configuration: str) -> list[Run]:
        """Return the runs of one workload in one configuration, in order of rounds."""
        return [r for r in self.runs if (r.workload, r.configuration) == (workload, configuration)]

    def values(self, workload: str, configuration: str, metric: Metric) -> list[float]:
        """Return a metric of these runs, in seconds."""
        return [run.value(metric) for run in self.of(workload, configuration)]

    def configurations(self, workload: str) -> list[str]:
        """Return the configurations a workload was run in, in the order of the first round."""
        return list(dict.fromkeys(r.configuration for r in self.runs if r.workload == workload))

    def workloads(self) -> list[str]:
        """Return the workloads that were run."""
        return list(dict.fromkeys(r.workload for r in self.runs))

    def middle(self, workload: str, configuration: str, metric: Metric) -> float:
        """Return the median over rounds, in seconds."""
        return median(self.values(workload, configuration, metric))


def times_text(table: Table) -> str:
    """Return the medians as a text for people, with the least and the most."""
    lines: list[tuple[str, ...]] = [
        ("workload", "configuration", "makespan", "mean turnaround", "CPU s", "failures")
    ]
    for workload in table.workloads():
        for name in table.configurations(workload):
            runs = table.of(workload, name)
            values = [table.values(workload, name, metric) for metric in METRICS]
            lines.append(
                (
                    workload,
                    name,
                    *(f"{median(v):6.1f} s ({min(v):.1f} … {max(v):.1f})" for v in values),
                    f"{median(r.cpu_seconds for r in runs):.0f}",
                    str(sum(r.failures for r in runs)),
                )
            )
    return aligned(lines)
