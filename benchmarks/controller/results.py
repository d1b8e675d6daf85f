# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the runs amount to: times by configuration, and whether they reach the bars. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, median
from typing import Any, Final, Literal

from controller.bars import Verdict, aligned
from controller.configurations import IN_SEQUENCE, STATIC, TOGETHER
from controller.runner import Outcome

Metric = Literal["makespan", "mean turnaround"]
BASELINES: Final = (TOGETHER.name, IN_SEQUENCE.name, STATIC.name)
METRICS: Final[tuple[Metric, ...]] = ("makespan", "mean turnaround")


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
        """Seconds from a job's arrival to its end, on average."""
        return mean(o.ended - o.arrival for o in self.outcomes)

    @property
    def cpu_seconds(self) -> float:
        """CPU time of all jobs together."""
        return sum(o.cpu_seconds for o in self.outcomes)

    @property
    def failures(self) -> int:
        """Jobs that ended badly or too early."""
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


@dataclass(frozen=True)
class Table:
    """All runs, to be asked for medians."""

    runs: tuple[Run, ...]

    def of(self, workload: str, configuration: str) -> list[Run]:
        """Return the runs of one workload in one configuration."""
        return [r for r in self.runs if (r.workload, r.configuration) == (workload, configuration)]

    def configurations(self, workload: str) -> list[str]:
        """Return the configurations a workload was run in, in the order of the first round."""
        return list(dict.fromkeys(r.configuration for r in self.runs if r.workload == workload))

    def workloads(self) -> list[str]:
        """Return the workloads that were run."""
        return list(dict.fromkeys(r.workload for r in self.runs))

    def middle(self, workload: str, configuration: str, metric: Metric) -> float:
        """Return the median over rounds, in seconds."""
        return median(r.value(metric) for r in self.of(workload, configuration))


def verdicts(table: Table, default: str) -> list[Verdict]:
    """Return as ratios how the controller did against the bars, as far as measured.

    Args:
        table: All runs.
        default: The name of the default policy.
    """
    found = []
    for workload in table.workloads():
        measured = set(table.configurations(workload))
        for ours, other, metric, most in _bars(workload, default, table):
            if ours in measured and other in measured:
                ratio = table.middle(workload, ours, metric) / table.middle(workload, other, metric)
                found.append(Verdict(workload, f"{ours} / {other}, {metric}", ratio, most))
    return found


def _bars(workload: str, default: str, table: Table) -> Iterable[tuple[str, str, Metric, float]]:
    """Yield each bar: whose time, divided by whose, which time, at most what."""
    measured = table.configurations(workload)
    stock = [name for name in BASELINES if name in measured]
    if len(stock) == len(BASELINES):
        best = min(stock, key=lambda name: table.middle(workload, name, "makespan"))
        yield default, best, "makespan", 1.02
    if workload == "a":
        yield default, TOGETHER.name, "makespan", 0.90
        yield default, IN_SEQUENCE.name, "makespan", 0.90
    if workload == "b":
        for other in measured:
            if other != "srpt":
                yield "srpt", other, "mean turnaround", 1.0
    if workload == "c":
        yield default, STATIC.name, "makespan", 0.85
    if workload == "d":
        yield "efficient", "equal", "makespan", 1.0
    if workload == "e":
        for name in measured:
            if name.startswith("lend+"):
                yield name, name.removeprefix("lend+"), "makespan", 1.0


def as_text(table: Table) -> str:
    """Return the medians as a text for people."""
    lines = [("workload", "configuration", "makespan", "mean turnaround", "CPU s", "failures")]
    for workload in table.workloads():
        for name in table.configurations(workload):
            runs = table.of(workload, name)
            spread = [f"{min(v):.1f} … {max(v):.1f}" for v in _values(runs)]
            middle = [table.middle(workload, name, metric) for metric in METRICS]
            lines.append(
                (
                    workload,
                    name,
                    *(f"{m:6.1f} s ({s})" for m, s in zip(middle, spread, strict=True)),
                    f"{median(r.cpu_seconds for r in runs):.0f}",
                    str(sum(r.failures for r in runs)),
                )
            )
    return aligned(lines)


def _values(runs: Sequence[Run]) -> list[list[float]]:
    return [[run.value(metric) for run in runs] for metric in METRICS]
