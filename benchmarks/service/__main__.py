# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure a Keras service beside two trainings, with and without --slo, under several loads."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.common.command_line import BenchmarkError, Say, finish, positive, sayer
from benchmarks.service.latencies import Latencies, latencies
from examples.command_line import Parser

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TRAININGS: Final = 2
ALONE: Final = "alone"
WITH_OBJECTIVE: Final = "beside trainings, --slo"
ARMS: Final = (ALONE, "beside trainings", WITH_OBJECTIVE)
LOADS: Final[Mapping[str, tuple[float, ...]]] = {
    "10 %": (0.1,),
    "30 %": (0.3,),
    "80 %": (0.8,),
    "10 and 80 % in turn": (0.1, 0.8),
}
"""Shares of the capacity, each for _PERIOD seconds in turn, as Poisson arrivals."""
_PERIOD: Final = 5.0
_FOLDER: Final = Path(__file__).parent


@dataclass(frozen=True)
class Run:
    """One run of the service.

    Attributes:
        latencies: Latencies of its requests.
        steps: Steps a second of all trainings together.
        left: CPU time of the trainings, as a share of what the service left of all cores.
        request_cpu: CPU time of a request, in seconds.
    """

    latencies: Latencies
    steps: float
    left: float
    request_cpu: float


class _Job:
    """A program that `tfm run` starts; killed at the end."""

    def __init__(self, socket: Path, options: Sequence[str], program: Sequence[str]) -> None:
        import tf_malleable
        from benchmarks.common.children import clean_environment
        from tf_malleable.workload.runner import TFM

        package = str(Path(tf_malleable.__file__).parents[1])
        self.process = subprocess.Popen(
            [*TFM, "run", f"--socket={socket}", *options, "--", sys.executable, *program],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=clean_environment({"PYTHONPATH": package}),
        )

    def __enter__(self) -> _Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def cpu_seconds(self) -> float:
        """Return the CPU time of its processes so far."""
        import psutil

        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)


def measure(arm: str, rates: Sequence[float], seconds: float, objective: float) -> Run:
    """Run the service once, beside trainings or not."""
    from benchmarks.common.controller import controller
    from tf_malleable.policies import registry

    with controller(registry.DEFAULT) as started, ExitStack() as jobs:
        client = started.client

        def steps() -> float:
            return sum(each.steps_done or 0.0 for each in client.jobs())

        socket = Path(client.socket)
        trainings = []
        if arm != ALONE:
            for number in range(_TRAININGS):
                train = _Job(socket, [f"--name=t{number}"], [str(_FOLDER / "train.py")])
                trainings.append(jobs.enter_context(train))
            while sum(bool(each.steps_done) for each in client.jobs()) < _TRAININGS:
                time.sleep(0.1)
        options = [f"--slo=p99={1000 * objective:g}ms"] if arm == WITH_OBJECTIVE else []
        serve = [str(_FOLDER / "serve.py"), *map(str, (seconds, _PERIOD, *rates))]
        service = jobs.enter_context(_Job(socket, ["--name=serve", *options], serve))
        while not any(each.name == "serve" and each.latency for each in client.jobs()):
            if service.process.poll() is not None:
                raise BenchmarkError("the service ended before it had served a request")
            time.sleep(0.1)
        begin, before = time.monotonic(), steps()
        used = sum(each.cpu_seconds() for each in trainings)
        output, _ = service.process.communicate()
        passed = time.monotonic() - begin
        used = sum(each.cpu_seconds() for each in trainings) - used
        done = steps() - before
    said = json.loads(output)
    high = [
        (at * _PERIOD, min(seconds, (at + 1) * _PERIOD))
        for at in range(1, int(seconds / _PERIOD))
        if rates[at % len(rates)] > rates[(at - 1) % len(rates)]
    ]
    left = passed * len(os.sched_getaffinity(0)) - said["cpu_seconds"]
    return Run(
        latencies(said["served"], objective, high),
        done / passed,
        used / left,
        said["cpu_seconds"] / len(said["served"]),
    )


def capacity(seconds: float) -> float:
    """Return the requests a second that the service can serve alone."""
    from benchmarks.common.children import clean_environment

    serve = [sys.executable, str(_FOLDER / "serve.py"), str(seconds), str(seconds)]
    return float(subprocess.check_output(serve, env=clean_environment({}), text=True))


def draw(found: Mapping[str, Mapping[str, Sequence[Run]]], objective: float) -> Figure:
    """Return a figure: p99 of each load and arm, and what the trainings had of the rest."""
    from matplotlib.figure import Figure

    from tf_malleable.figures import style

    figure = Figure(figsize=(8, 3), layout="constrained")
    late, rest = figure.subplots(1, 2)
    for number, arm in enumerate(ARMS):
        at = [row + 0.25 * (number - 1) for row in range(len(found))]
        color = style.COLOURS[number % len(style.COLOURS)]
        p99 = [
            1e3 * statistics.median(r.latencies.p99 for r in arms[arm]) for arms in found.values()
        ]
        late.bar(at, p99, 0.25, color=color, label=arm)
        if arm != ALONE:
            left = [statistics.median(run.left for run in arms[arm]) for arms in found.values()]
            rest.bar(at, left, 0.25, color=color)
    late.axhline(1e3 * objective, color="#9A9A9A", linewidth=0.8)
    late.set_yscale("log")
    late.set_ylabel("p99, ms; line: objective")
    late.legend(fontsize=style.SMALL)
    rest.set_ylabel("trainings, of what the service leaves")
    for axes in (late, rest):
        axes.set_xticks(range(len(found)), list(found), fontsize=style.SMALL)
    return figure


def run(
    loads: Sequence[str], seconds: float, objective: float, rounds: int, out: Path, say: Say
) -> None:
    """Measure all arms in turn, write, and print."""
    from benchmarks.common import machine

    before = machine.CpuTimes.now()
    most = capacity(5.0)
    say(f"capacity: {most:.1f} requests a second")
    found: dict[str, dict[str, list[Run]]] = {load: {arm: [] for arm in ARMS} for load in loads}
    for number in range(rounds):
        for load in loads:
            rates = [share * most for share in LOADS[load]]
            for arm in ARMS if number % 2 else reversed(ARMS):
                found[load][arm].append(measure(arm, rates, seconds, objective))
                say(f"{load}, {arm}: {found[load][arm][-1]}")
    noise = machine.noise(before, machine.CpuTimes.now())
    content = {
        **machine.describe(),
        "noise": noise,
        "capacity": most,
        "objective": objective,
        "loads": {
            load: {arm: [asdict(each) for each in runs] for arm, runs in arms.items()}
            for load, arms in found.items()
        },
    }
    (out / "results.json").write_text(json.dumps(content, indent=1) + "\n")
    draw(found, objective).savefig(out / "results.png", dpi=120)
    for line in table(found):
        print(line)
    print(machine.noise_text(noise))


def table(found: Mapping[str, Mapping[str, Sequence[Run]]]) -> list[str]:
    """Return lines with the medians of all loads and arms."""
    lines = [
        "| load | service | p50, ms | p99, ms | seconds within the objective"
        " | within again after, s | trainings, of the rest | steps/s | CPU ms of a request |",
        "| --- " * 9 + "|",
    ]
    for load, arms in found.items():
        for arm, runs in arms.items():
            each = [one.latencies for one in runs]
            settled = [one.settled for one in each if one.settled is not None]
            cells = [
                f"{1e3 * statistics.median(one.p50 for one in each):.1f}",
                f"{1e3 * statistics.median(one.p99 for one in each):.1f}",
                f"{statistics.median(one.within for one in each):.1%}",
                f"{statistics.median(settled):.2f}" if settled else "",
                f"{statistics.median(one.left for one in runs):.1%}",
                f"{statistics.median(one.steps for one in runs):.2f}",
                f"{1e3 * statistics.median(one.request_cpu for one in runs):.2f}",
            ]
            lines.append(f"| {load} | {arm} | {' | '.join(cells)} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = Parser("service", description=__doc__)
    line.add_argument("--loads", nargs="+", type=_load, default=list(LOADS), metavar="LOAD")
    line.add_argument("--seconds", type=positive, default=30, help="of each run")
    line.add_argument("--objective", type=positive, default=50, help="p99 in milliseconds")
    line.add_argument("--rounds", type=positive, default=3)
    line.add_argument("--out", type=Path, default=Path("out/service"))
    said = line.parse_args(arguments)
    said.out.mkdir(parents=True, exist_ok=True)
    objective = said.objective / 1000
    return finish(
        "service",
        lambda: run(said.loads, said.seconds, objective, said.rounds, said.out, sayer()),
    )


def _load(text: str) -> str:
    if text not in LOADS:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(LOADS)}, not {text!r}")
    return text


if __name__ == "__main__":
    sys.exit(main())
