# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Real trainings that arrive within half a minute, with a controller and without.

The trainings are ordinary programs. No line of them knows that their cores change, and
no core is set by hand.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import msgspec
import speed
from command_line import Parser

from tf_malleable.api.schema.history import History, Summary
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.tables import console, table
from tf_malleable.cli.workload.progress import WorkloadProgress
from tf_malleable.figures import gantt, style
from tf_malleable.figures.formats import is_picture
from tf_malleable.model import OperationError
from tf_malleable.model.units import duration, number, percent
from tf_malleable.workload.interrupts import end_on_signals
from tf_malleable.workload.plan import PlannedJob, read_workload
from tf_malleable.workload.private_controller import private_controller
from tf_malleable.workload.runner import run_workload

REPOSITORY = Path(__file__).parent.parent
TRAININGS = Path(__file__).with_name("trainings.txt")
BIN = Path(sys.executable).parent
# Of all trainings, a CNN's share of the work is the largest.
SPEED_OF = "cnn"


class DemoError(Exception):
    """What went wrong, in one sentence; what a program printed may follow."""


def scaled(jobs: Sequence[PlannedJob], factor: float) -> list[PlannedJob]:
    """Return the trainings, scaled so that they take about as long here as elsewhere."""
    found = []
    for job in jobs:
        command = speed.scaled(job.request.command, factor)
        found.append(replace(job, request=replace(job.request, command=command)))
    return found


def run(jobs: Sequence[PlannedJob], out: Path, client: Client | None) -> History:
    """Run the trainings, show how they get on, and return what became of them."""
    with WorkloadProgress(jobs, client) as progress:
        return run_workload(jobs, out=out, controller=client, watch=progress)


def with_slowdown(history: History, work: History) -> History:
    """Return a history whose mean slowdown can be compared with another run's.

    It is the turnaround divided by the work a job is: the CPU seconds it took in one
    of the runs. (Time in service would not do: alone, a job is in service from the
    moment it arrives, however slow it is.)
    """
    seconds = {job.name: job.cpu_seconds for job in work.jobs}
    slowdowns = [
        job.total_seconds / one_core for job in history.jobs if (one_core := seconds[job.name])
    ]
    mean = fmean(slowdowns) if slowdowns else None
    summary = msgspec.structs.replace(history.summary, mean_slowdown=mean)
    return msgspec.structs.replace(history, summary=summary)


def compare(controlled: Summary, alone: Summary) -> None:
    """Print the metrics of both runs side by side."""
    runs = (controlled, alone)
    rows = [
        ("makespan", *(duration(run.makespan) for run in runs)),
        ("mean turnaround", *(duration(run.mean_turnaround) for run in runs)),
        ("mean waiting", *(duration(run.mean_waiting) for run in runs)),
        ("mean slowdown", *(number(run.mean_slowdown, 2) for run in runs)),
        ("jobs per second", *(number(run.throughput, 3) for run in runs)),
        ("share of core time used", *(percent(run.utilization) for run in runs)),
        ("failures", *(str(run.failures) for run in runs)),
    ]
    console().print(table(("", ">with a controller", ">without"), rows))


def demonstrate(jobs: Sequence[PlannedJob], out: Path) -> int:
    """Run the trainings twice, print and draw; return how many failed.

    Raises:
        DemoError, TrainingError, OperationError, OSError: It cannot be done.
    """
    logs = out.with_suffix("")
    logs.mkdir(parents=True, exist_ok=True)
    print(f"{len(jobs)} trainings on {len(os.sched_getaffinity(0))} CPUs, {jobs[-1].at:g} s of")
    print("arrivals, first under a controller. TensorFlow is fetched from the disk once before …")
    speed.import_once()
    print("Measuring this machine's speed, to which their steps are scaled …")
    factor = speed.measure(SPEED_OF, seconds=1.0)
    jobs = scaled(jobs, factor)
    print(f"It is {factor:g} of the usual one.")
    with private_controller(log=logs / "controller.log") as controller:
        controlled = run(jobs, logs / "with", controller.client)
        cpus = len(controller.client.info().cpus)
    print("\nThe same without a controller: each starts at once, with all cores.")
    alone = run(jobs, logs / "without", None)
    alone = with_slowdown(alone, controlled)
    controlled = with_slowdown(controlled, controlled)
    print()
    compare(controlled.summary, alone.summary)
    both = [("With a controller", controlled), ("Without", alone)]
    style.write(gantt.compare(both, cpus=cpus), out)
    print(f"\nSlowdown: turnaround divided by the job's own CPU time. Picture: {out}")
    return controlled.summary.failures + alone.summary.failures


def main() -> int:
    """Run the demo."""
    parser = Parser("demo", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/demo.png"), help="the picture")
    parser.add_argument("--trainings", type=Path, default=TRAININGS, help="workload file")
    said = parser.parse_args()
    out = said.out.absolute()
    try:
        jobs = read_workload(said.trainings)
    except ValueError as error:
        parser.error(str(error))
    if not is_picture(out):
        parser.error(f"--out must be a file .png or .svg, not {out.name!r}")
    end_on_signals()
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.chdir(REPOSITORY)
    try:
        return 1 if demonstrate(jobs, out) else 0
    except KeyboardInterrupt:
        print("\ndemo: interrupted", file=sys.stderr)
        return 130
    except (DemoError, speed.TrainingError, OperationError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
