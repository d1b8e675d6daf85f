# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The parts that no other benchmark has; each writes a file, anew after each round."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

from benchmarks.common.children import clean_environment
from benchmarks.common.command_line import BenchmarkError, finish, positive, sayer
from benchmarks.common.configurations import (
    IN_SEQUENCE,
    TOGETHER,
    Configuration,
    Slot,
    controlled,
)
from benchmarks.common.controller import Histogram, controller
from benchmarks.common.runs import METRICS, Run, Table, run_trainings
from benchmarks.common.trainings import Training
from benchmarks.many import load
from benchmarks.many_cores.__main__ import powers_of_two
from benchmarks.validation.__main__ import compared
from tf_malleable.api.schema.history import MOST_HISTORY, History
from tf_malleable.controller.state.store import read_history
from tf_malleable.model import OperationError
from tf_malleable.policies import registry
from tf_malleable.simulate.engine.curves import parse_curve
from tf_malleable.simulate.engine.workload import Assumed

_POLICIES: Final = (registry.DEFAULT, "equal")
_PROGRAM: Final = "torch_cnn"
_RATE: Final = re.compile(r"steps, ([\d.]+) a second")
# A second of one core, about.
_MEASURED_STEPS: Final = 40
# Filters, steps in units of those that take as long as was asked for on all cores, and arrival. A
# step takes about four times as long with twice the filters.
_PLAN: Final = (
    (64, 1.0, 0.0),
    (128, 0.25, 1.0),
    (32, 2.0, 2.0),
    (64, 0.5, 3.0),
    (128, 0.25, 4.0),
)
_JOBS: Final = 64
# A step of the tiny program on one core takes about three milliseconds.
_TINY_STEPS: Final = 40


def trainings(rounds: int, seconds: int, out: Path) -> None:
    """Run the same trainings in each way, in rotated order."""
    say, cores = sayer(), len(os.sched_getaffinity(0))
    speeds = {n: _steps_a_second(n, _MEASURED_STEPS * seconds) for n in powers_of_two(cores)}
    say("steps a second: " + ", ".join(f"{n}: {speed:g}" for n, speed in speeds.items()))
    base = speeds[cores] * seconds
    plan = [
        Training(_PROGRAM, max(1, round(base * part)), size, arrival)
        for size, part, arrival in _PLAN
    ]
    ways = [*map(controlled, _POLICIES), TOGETHER, IN_SEQUENCE, halves()]
    runs: list[Run] = []
    for number in range(rounds):
        turn = number % len(ways)
        for way in ways[turn:] + ways[:turn]:
            runs.append(_run(number, plan, way, out))
            runs[-1].tell(say)
            _write(out / "trainings.json", {"speeds": speeds, **_medians(runs)})


def halves() -> Configuration:
    """Return a split of the machine into two places, each for one training at a time."""
    cpus = sorted(os.sched_getaffinity(0))
    middle = max(1, len(cpus) // 2)
    places = tuple(
        Slot(("taskset", "-c", ",".join(map(str, half))), {"OMP_NUM_THREADS": str(len(half))})
        for half in (cpus[:middle], cpus[middle:])
        if half
    )
    return Configuration("static halves", slots=places)


def _steps_a_second(cores: int, steps: int) -> float:
    """Return the speed of the training with this number of cores to itself.

    Raises:
        BenchmarkError: It failed.
    """
    cpus = sorted(os.sched_getaffinity(0))[:cores]
    command = Training(_PROGRAM, steps, 64).command
    done = subprocess.run(
        ["taskset", "-c", ",".join(map(str, cpus)), *command],
        env=clean_environment({"OMP_NUM_THREADS": str(cores)}),
        capture_output=True,
        text=True,
        check=False,
    )
    said = _RATE.search(done.stdout)
    if said is None:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise BenchmarkError(f"the training failed: {last[0]}")
    return float(said[1])


def _run(number: int, plan: Sequence[Training], way: Configuration, out: Path) -> Run:
    if way.policy is None:
        return Run(number, _PROGRAM, way.name, run_trainings(plan, way, None))
    with tempfile.TemporaryDirectory(prefix="tfm-") as folder:
        state = Path(folder, "state")
        with controller(way.policy, state) as started:
            outcomes = run_trainings(plan, way, started.client)
        history, _ = read_history(state, MOST_HISTORY)
    (out / f"history-{way.policy}-{number}.json").write_bytes(msgspec.json.encode(history))
    return Run(number, _PROGRAM, way.name, outcomes)


def _medians(runs: Sequence[Run]) -> dict[str, Any]:
    table = Table(tuple(runs))
    return {
        "seconds": {
            way: {metric: median(table.values(_PROGRAM, way, metric)) for metric in METRICS}
            for way in table.configurations(_PROGRAM)
        },
        "runs": [run.as_json() for run in runs],
    }


def grants(rounds: int, seconds: int, out: Path) -> None:
    """Have 64 jobs live at a time, which say how long each of their grants took them."""
    steps = _TINY_STEPS * seconds * len(os.sched_getaffinity(0))
    jobs = [
        Training("tiny", steps, 300, number * load.ARRIVAL_SECONDS, joins=True)
        for number in range(_JOBS)
    ]
    found = load.measure(sayer(), jobs)
    _write(
        out / "grants.json",
        {
            "jobs": _JOBS,
            "failures": found.failures,
            "seconds": found.seconds,
            "controller_cpus": found.controller_cpu,
            "grants": found.acknowledged.count,
            "acknowledged_at_most_seconds": _percentiles(found.acknowledged),
            "decisions": found.decisions.count,
            "decided_at_most_seconds": _percentiles(found.decisions),
        },
    )


def _percentiles(histogram: Histogram) -> dict[str, float]:
    return {f"p{round(100 * share)}": histogram.percentile(share) for share in (0.5, 0.99)}


def simulator(rounds: int, seconds: int, out: Path) -> None:
    """Simulate each policy from what happened under the other one.

    Raises:
        BenchmarkError: Nothing was recorded by `trainings`.
    """
    live = {
        policy: [
            msgspec.json.decode(path.read_bytes(), type=History)
            for path in sorted(out.glob(f"history-{policy}-*.json"))
        ]
        for policy in _POLICIES
    }
    if not all(live.values()):
        raise BenchmarkError(f"no run of trainings under {' and '.join(_POLICIES)} in {out}")
    speeds: Mapping[str, float] = json.loads((out / "trainings.json").read_text())["speeds"]
    text = ",".join(f"{cores}={speed}" for cores, speed in speeds.items())
    found = compared(
        _PROGRAM,
        live,
        (),
        len(os.sched_getaffinity(0)),
        Assumed(parse_curve(text), text, steps=None),
    )
    rows = [
        {
            "policy": one.policy,
            **{
                metric: {
                    "live": one.live[at],
                    "simulated": one.simulated[at],
                    "off_percent": one.off(at),
                }
                for at, metric in enumerate(METRICS)
            },
        }
        for one in found
    ]
    _write(out / "simulator.json", {"curve": text, "policies": rows})


def _write(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=1) + "\n")


def main() -> int:
    """Run one part."""
    found = {"trainings": trainings, "grants": grants, "simulator": simulator}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=found)
    parser.add_argument("--rounds", type=positive, required=True)
    parser.add_argument("--seconds", type=positive, required=True)
    parser.add_argument("--out", type=Path, required=True)
    said = parser.parse_args()
    measure = found[said.part]
    return finish(said.part, lambda: measure(said.rounds, said.seconds, said.out), OperationError)


if __name__ == "__main__":
    sys.exit(main())
