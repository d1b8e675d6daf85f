# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Command tfm simulate: workloads under other policies and on other machines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from tf_malleable.api.schema.history import MOST_HISTORY, History
from tf_malleable.cli.completion import complete_policies
from tf_malleable.cli.options import json_option
from tf_malleable.cli.pictures import gantt_option, picture, require_matplotlib, write
from tf_malleable.cli.simulate.progress import SimulationProgress
from tf_malleable.cli.simulate.report import Report, interrupted, part, print_report
from tf_malleable.controller.state.store import StoreError, default_state, read_history
from tf_malleable.figures.formats import MOST_PANELS
from tf_malleable.model import Machine, OperationError
from tf_malleable.policies import registry
from tf_malleable.simulate.engine.curves import parse_curve
from tf_malleable.simulate.engine.simulation import Outcome, Scenario
from tf_malleable.simulate.engine.workload import Assumed, Workload
from tf_malleable.simulate.sweep import Case, Result, sweep
from tf_malleable.simulate.traces import FORMATS, is_trace, read_trace
from tf_malleable.simulate.workloads.generate import generate
from tf_malleable.simulate.workloads.history_replay import replayed
from tf_malleable.simulate.workloads.plan import read_plan
from tf_malleable.workload.interrupts import end_on_signals

# Beside the default, the policies that show differences best: equal shares, and one by one.
_POLICIES: Final = (registry.DEFAULT, "equal", "fcfs-strict")
_CURVE: Final = "amdahl:0.05"
_INTERRUPTED: Final = 130


@click.command()
@click.argument(
    "files", nargs=-1, type=click.Path(dir_okay=False, path_type=Path), metavar="[WORKLOAD]..."
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="POLICY",
    shell_complete=complete_policies,
    help=f"A policy to compare; may be repeated.  [default: {', '.join(_POLICIES)}]",
)
@click.option(
    "--cores",
    type=click.IntRange(1, 65536),
    metavar="N",
    help="CPUs of a host.  [default: as many as here, or as the history's host had]",
)
@click.option(
    "--hosts",
    type=click.IntRange(1, 10000),
    metavar="N",
    default=1,
    help="Number of hosts; a job stays on the one it is placed on.  [default: 1]",
)
@click.option(
    "--numa",
    type=click.IntRange(1, 64),
    metavar="N",
    default=1,
    help="NUMA nodes of a host.  [default: 1]",
)
@click.option(
    "--smt",
    type=click.IntRange(1, 8),
    metavar="N",
    default=1,
    help="CPUs of a physical core.  [default: 1]",
)
@click.option(
    "--cpu-weights",
    type=click.Choice(["auto", "off"]),
    default="auto",
    help="Whether services share cores with jobs that they preempt.  [default: auto]",
)
@click.option(
    "--from-history",
    "history",
    is_flag=False,
    flag_value="",
    type=click.Path(dir_okay=False),
    metavar="[FILE]",
    help="Replay the history in the controller's state FILE; by default the standard one.",
)
@click.option(
    "--generate",
    "generated",
    multiple=True,
    metavar="SPEC",
    help="Generate a workload, such as jobs=1000,load=0.8,sizes=lognormal.",
)
@click.option(
    "--curve",
    metavar="CURVE",
    default=_CURVE,
    help="How jobs speed up that do not say: linear, amdahl:SERIAL, usl:CONTENTION,COHERENCE or"
    f" 1=1,2=1.9,….  [default: {_CURVE}]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Trace format, if it is not detected.",
)
@click.option(
    "--trust-estimates",
    is_flag=True,
    help="Tell the policy the times that users of an SWF trace requested.",
)
@click.option(
    "--rigid", is_flag=True, help="Give each job of a trace exactly the cores that it had."
)
@click.option(
    "--starting",
    type=click.FloatRange(0, 86400),
    metavar="SECONDS",
    default=0.0,
    help="Start-up time of a program on one core, if the workload does not give it.",
)
@click.option(
    "--noise",
    type=click.FloatRange(0, 1),
    metavar="X",
    default=0.0,
    help="Standard deviation of speeds from their curves, such as 0.05.  [default: 0]",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    metavar="N",
    default=0,
    help="Random seed; the same seed gives the same result.  [default: 0]",
)
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, for spreadsheets.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    callback=picture,
    help="Draw turnarounds, utilisation and queue of all policies, to a .svg or .png FILE.",
)
@gantt_option
def simulate(
    files: tuple[Path, ...],
    policies: tuple[str, ...],
    cores: int | None,
    hosts: int,
    numa: int,
    smt: int,
    cpu_weights: str,
    history: str | None,
    generated: tuple[str, ...],
    curve: str,
    form: str | None,
    trust_estimates: bool,
    rigid: bool,
    starting: float,
    noise: float,
    seed: int,
    as_json: bool,
    as_csv: bool,
    plot: Path | None,
    gantt: Path | None,
) -> None:
    """Simulate workloads under several policies, side by side, in virtual time.

    A WORKLOAD is a file as for tfm workload, with a size and maybe a curve on each line, or
    a trace: SWF, or Philly's JSON, Helios' or PAI's CSV.

    \b
        0    --max 2 --work 600 --curve amdahl:0.1 -- python train.py
        2.5  --min 2 --work 1200 --starting 5 -- python big.py

    Without a file, --from-history replays what happened here, and --generate makes
    workloads up. The output lists the assumptions about what a source leaves open. The policy
    knows as much as of real jobs: run times and speeds only once they were measured.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other: give only one of them")
    chosen = tuple(dict.fromkeys(policies)) or _POLICIES
    for policy in chosen:
        registry.create(policy)
    assumed = Assumed(parse_curve(curve), curve, malleable=not rigid, starting=starting)
    past = None if history is None else _past(history)
    if cores is None:
        cores = (past and past[1]) or len(os.sched_getaffinity(0))
    machine = replace(Machine.regular(cores, numa, smt), preempts=cpu_weights == "auto")
    if not files and not generated and past is None:
        raise click.UsageError(
            "there is nothing to simulate: give a file, --from-history or --generate"
        )
    workloads = [_read(file, assumed, form, trust_estimates) for file in files]
    if past is not None:
        workloads.append(replayed(past[0], assumed))
    workloads += [_generated(text, cores * hosts, seed, assumed) for text in generated]
    if gantt and hosts * len(chosen) > MOST_PANELS:
        raise click.UsageError(
            f"--gantt shows at most {MOST_PANELS} hosts and policies, not {hosts * len(chosen)}"
        )
    if plot or gantt:
        _check_one_picture(len(workloads))
    scenario = Scenario((machine,) * hosts, seed=seed, noise=noise)
    cases = [
        Case(index, policy, scenario, spans=bool(plot or gantt))
        for index in range(len(workloads))
        for policy in chosen
    ]
    found, whole = _simulated(workloads, cases)
    parts = tuple(
        part(workload, [found[case] for case in cases if case.workload == index and case in found])
        for index, workload in enumerate(workloads)
    )
    report = Report(cores, hosts, numa, smt, seed, noise, parts)
    print_report(report, "json" if as_json else "csv" if as_csv else "table")
    if not whole:
        interrupted(report, len(cases))
        raise SystemExit(_INTERRUPTED)
    outcomes = {
        case.policy: result.outcome
        for case, result in found.items()
        if result.outcome and result.outcome.history.jobs
    }
    if outcomes and gantt is not None:
        _draw_gantt(outcomes, cores, gantt)
    if outcomes and plot is not None:
        _draw_plot(outcomes, cores * hosts, workloads[0].name, plot)
    if failed := sum(result.outcome is None for result in found.values()):
        raise OperationError(f"{failed} of {len(cases)} simulations failed")


def _check_one_picture(workloads: int) -> None:
    if workloads > 1:
        raise click.UsageError("--plot and --gantt show one workload: give only one")
    require_matplotlib()


def _past(file: str) -> tuple[History, int]:
    """Return the history in a state file, and the number of CPUs shared out."""
    try:
        return read_history(Path(file) if file else default_state(), MOST_HISTORY)
    except StoreError as error:
        raise ValueError(str(error)) from None


def _read(file: Path, assumed: Assumed, form: str | None, trust_estimates: bool) -> Workload:
    if form or trust_estimates or is_trace(file):
        return read_trace(file, assumed, form, trust_estimates=trust_estimates)
    return read_plan(file, assumed)


def _generated(text: str, cores: int, seed: int, assumed: Assumed) -> Workload:
    try:
        return generate(text, cores, seed, assumed)
    except ValueError as error:
        raise ValueError(f"--generate {text}: {error}") from None


def _simulated(
    workloads: Sequence[Workload], cases: Sequence[Case]
) -> tuple[Mapping[Case, Result], bool]:
    """Return the results, and whether they are complete; after Ctrl-C they are not."""
    end_on_signals()
    found: dict[Case, Result] = {}
    jobs = sum(len(workloads[case.workload].tasks) for case in cases)
    try:
        with (
            SimulationProgress(jobs) as progress,
            closing(sweep(workloads, cases, on_progress=progress)) as results,
        ):
            for result in results:
                found[result.case] = result
    except KeyboardInterrupt:
        return found, False
    return found, True


def _draw_gantt(outcomes: Mapping[str, Outcome], cores: int, path: Path) -> None:
    from tf_malleable.figures import gantt

    panels = [
        (f"{policy}, host {number}" if len(outcome.hosts) > 1 else policy, history)
        for policy, outcome in outcomes.items()
        for number, history in enumerate(outcome.hosts, 1)
    ]
    zero = min(outcome.history.jobs[0].submitted for outcome in outcomes.values())
    write(gantt.compare(panels, cpus=[cores] * len(panels), zero=zero), path)


def _draw_plot(outcomes: Mapping[str, Outcome], cores: int, title: str, path: Path) -> None:
    from tf_malleable.figures import comparison

    histories = {policy: outcome.history for policy, outcome in outcomes.items()}
    write(comparison.compare(histories, cores, title), path)
