# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Output of tfm simulate: a table, JSON or CSV."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import click
import msgspec

from tf_malleable.api.schema.history import Summary
from tf_malleable.cli.options import print_json
from tf_malleable.cli.tables import console, table
from tf_malleable.model.units import duration, number, percent
from tf_malleable.simulate.engine.host import Counts
from tf_malleable.simulate.engine.workload import Workload
from tf_malleable.simulate.sweep import Result

_COLUMNS = (
    *("policy", ">ended", ">failed", ">refused", ">makespan", ">turnaround", ">waiting"),
    *(">slowdown", ">jobs/h", ">used", ">changes"),
)


@dataclass(frozen=True)
class Fared:
    """Result of a workload under a policy.

    Attributes:
        policy: Name and options of the policy.
        problem: Why the policy could not continue, in one sentence; None if it could.
        summary: Metrics as in `tfm history`; None if the policy could not continue.
        counts: Numbers of events; None if the policy could not continue.
    """

    policy: str
    problem: str | None
    summary: Summary | None
    counts: Counts | None


@dataclass(frozen=True)
class Part:
    """Results of a workload.

    Attributes:
        name: Name of the workload.
        jobs: Number of its jobs.
        left_out: Number of jobs of the source that are not simulated, by the reason.
        assumed: Assumptions, because the source is incomplete.
        results: Results by policy, in the order in which the policies were given.
    """

    name: str
    jobs: int
    left_out: Mapping[str, int]
    assumed: tuple[str, ...]
    results: tuple[Fared, ...]


@dataclass(frozen=True)
class Report:
    """Results of all workloads.

    Attributes:
        cores: CPUs of each host.
        hosts: Number of hosts.
        numa: NUMA nodes of each host.
        smt: CPUs of each physical core.
        seed: Random seed.
        noise: Noise of the speeds.
        workloads: Results of the workloads, in the order in which these were given.
    """

    cores: int
    hosts: int
    numa: int
    smt: int
    seed: int
    noise: float
    workloads: tuple[Part, ...]


def part(workload: Workload, results: Sequence[Result]) -> Part:
    """Return the results of a workload."""
    rows = tuple(
        Fared(
            result.case.policy,
            result.problem,
            None if result.outcome is None else result.outcome.history.summary,
            None if result.outcome is None else result.outcome.counts,
        )
        for result in results
    )
    return Part(workload.name, len(workload.tasks), workload.left_out, workload.assumed, rows)


def print_report(report: Report, form: str) -> None:
    """Print a report as ``"json"``, ``"csv"`` or ``"table"``."""
    if form == "json":
        print_json(report)
    elif form == "csv":
        _print_csv(report)
    else:
        _print_tables(report)


def _print_csv(report: Report) -> None:
    """Print RFC 4180 CSV, a line for each workload and policy; empty fields are unknown."""
    writer = csv.writer(sys.stdout, lineterminator="\r\n")
    summaries = [field.name for field in msgspec.structs.fields(Summary)]
    counts = [field.name for field in fields(Counts)]
    writer.writerow(["workload", "policy", "problem", *summaries, *counts])
    for each in report.workloads:
        for row in each.results:
            values = [getattr(row.summary, name, None) for name in summaries]
            values += [getattr(row.counts, name, None) for name in counts]
            writer.writerow([each.name, row.policy, row.problem, *values])


def _print_tables(report: Report) -> None:
    output = console()
    for index, each in enumerate(report.workloads):
        if index:
            output.print()
        jobs = "1 job" if each.jobs == 1 else f"{each.jobs:,} jobs"
        hosts = f"{report.hosts} hosts of " if report.hosts > 1 else ""
        output.print(f"{each.name}: {jobs} on {hosts}{report.cores} CPUs", soft_wrap=True)
        output.print(table(_COLUMNS, [_cells(row) for row in each.results if row.summary]))
        for row in each.results:
            if row.problem:
                output.print(f"{row.policy} failed: {row.problem}", soft_wrap=True)
        for reason, count in each.left_out.items():
            output.print(f"left out: {count:,} jobs {reason}", soft_wrap=True)
        for sentence in each.assumed:
            output.print(f"assumed: {sentence}", soft_wrap=True)


def _cells(row: Fared) -> tuple[str, ...]:
    summary, counts = row.summary, row.counts
    assert summary is not None
    assert counts is not None
    hourly = None if summary.throughput is None else 3600 * summary.throughput
    return (
        row.policy,
        str(summary.jobs),
        str(summary.failures),
        str(counts.rejected),
        duration(summary.makespan),
        duration(summary.mean_turnaround),
        duration(summary.mean_waiting),
        number(summary.mean_slowdown, 2),
        number(hourly),
        percent(summary.utilization),
        str(counts.changes),
    )


def interrupted(report: Report, cases: int) -> None:
    """Print on stderr how much of a report is missing because of Ctrl-C."""
    done = sum(len(each.results) for each in report.workloads)
    click.echo(f"tfm: interrupted; {done} of {cases} simulations had ended", err=True)
