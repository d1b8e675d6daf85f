# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Compare simulations of the workloads of `benchmarks.many` with what really happened.

Each workload is run under every policy. A simulation of one of them knows of its jobs only what
the history of a run under another policy says, and how its programs scale, which is measured
before. What it says is the mean over the runs under all other policies.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from benchmarks.common.command_line import (
    BenchmarkError,
    CommandLine,
    finish,
    positive,
    sayer,
)
from benchmarks.many.workloads import WORKLOADS

if TYPE_CHECKING:
    from benchmarks.common.configurations import Configuration
    from benchmarks.common.pace import Pace
    from benchmarks.common.rows import Row
    from benchmarks.common.trainings import Training
    from tf_malleable.api.history import History

# Runs trainings in a configuration, with a state file.
Start = Callable[[Sequence["Training"], "Configuration", Path], object]

POLICIES: Final = ("equal", "lend+efficient", "lend+srpt", "fcfs-strict")
_MOST_PERCENT: Final = 5.0
# Live ones that differ by less are equal.
_DIFFERENT: Final = 1.05
_CURVES: Final = "curves.json"
# About eight seconds on one core, without the start.
_STEPS: Final = {
    "cnn-64": 650,
    "cnn-128": 200,
    "dense-1024": 850,
    "dense-1536": 400,
    "rnn-32": 800,
    "reader-1024": 500,
}
CONTAINERS: Final = "containers"
TITLES: Final = {
    **{letter: workload.title for letter, workload in WORKLOADS.items()},
    CONTAINERS: "16 containers that arrive at random",
}


@dataclass(frozen=True)
class Compared:
    """A live run and its simulation; makespan and mean turnaround in seconds."""

    workload: str
    policy: str
    live: tuple[float, float]
    simulated: tuple[float, float]

    def off(self, measure: int) -> float:
        """Return by how many percent the simulation is off; above 0: too long."""
        return 100 * (self.simulated[measure] / self.live[measure] - 1)


def measures(history: History) -> tuple[float, float]:
    """Return makespan and mean turnaround, in seconds."""
    summary = history.summary
    return summary.makespan or 0.0, summary.mean_turnaround or 0.0


def compared(
    workload: str, live: Mapping[str, Sequence[History]], curves: History, cores: int
) -> list[Compared]:
    """Return every run of a workload beside its simulation.

    Args:
        workload: Its name.
        live: Histories of the runs, by policy.
        curves: That of jobs whose speeds were measured before, with each number of cores.
        cores: Number of cores.
    """
    from tf_malleable.model import Machine
    from tf_malleable.simulate.replay import replayed
    from tf_malleable.simulate.simulation import Scenario, simulate
    from tf_malleable.simulate.workload import Assumed

    found = []
    for policy, histories in live.items():
        others = [each for other, (each, *_) in live.items() if other != policy]
        each = [
            measures(
                simulate(
                    replayed(other, Assumed(), curves.jobs).tasks,
                    policy,
                    Scenario((Machine.flat(cores),)),
                ).history
            )
            for other in others
        ]
        # Two runs under one policy differ by several percent, too.
        simulated = fmean(one for one, _ in each), fmean(one for _, one in each)
        found += [Compared(workload, policy, measures(one), simulated) for one in histories]
    return found


def rows(found: Sequence[Compared]) -> list[Row]:
    """Return by how much each simulation is off."""
    from benchmarks.common.estimates import estimate, once
    from benchmarks.common.rows import Row, Target

    made = []
    for workload, policy in dict.fromkeys((each.workload, each.policy) for each in found):
        mine = [each for each in found if (each.workload, each.policy) == (workload, policy)]
        for measure, name in enumerate(("makespan", "mean turnaround")):
            off = [abs(each.off(measure)) for each in mine]
            said = ", ".join(
                f"{each.simulated[measure]:.1f} for {each.live[measure]:.1f} s" for each in mine
            )
            made.append(
                Row(
                    workload,
                    f"{policy}: {name}, off by",
                    "%",
                    estimate([off]),
                    Target(_MOST_PERCENT),
                    workload=TITLES[workload],
                    remark=said,
                )
            )
    for workload in dict.fromkeys(each.workload for each in found):
        mine = [each for each in found if each.workload == workload]
        swapped = [
            f"{one.policy} and {other.policy}"
            for one, other in itertools.combinations(mine, 2)
            for measure in (0, 1)
            if _swapped(one, other, measure)
        ]
        made.append(
            Row(
                workload,
                "policies in another order than live",
                "",
                once(float(len(swapped))),
                Target(0),
                workload=TITLES[workload],
                remark="; ".join(swapped),
            )
        )
    return made


def _swapped(one: Compared, other: Compared, measure: int) -> bool:
    """Return whether simulation orders two runs otherwise, though they differ enough live."""
    live = one.live[measure] / other.live[measure]
    if one.policy == other.policy or 1 / _DIFFERENT < live < _DIFFERENT:
        return False
    return (live > 1) != (one.simulated[measure] > other.simulated[measure])


def run(names: Sequence[str], rounds: int, out: Path) -> None:
    """Run, simulate, write and print.

    Args:
        names: Workloads.
        rounds: Runs of each under each policy.
        out: Folder for the results and the history of each run.
    """
    import msgspec

    from benchmarks.common import pace
    from benchmarks.common.configurations import controlled
    from benchmarks.common.results import Results
    from tf_malleable.api.history import MOST_HISTORY
    from tf_malleable.controller.state.store import read_history

    say, results = sayer(), Results("validation", out, rounds=rounds, policies=POLICIES)
    found: list[Compared] = []
    with ExitStack() as stack:
        runners = {name: _runner(name, stack) for name in names}
        speed = pace.measure(say)
        curves = _measured(speed)
        (out / _CURVES).write_bytes(msgspec.json.encode(curves))
        say("speeds with each number of cores")
        for name, (trainings, start) in runners.items():
            live: dict[str, list[History]] = {policy: [] for policy in POLICIES}
            for number, policy in itertools.product(range(1, rounds + 1), POLICIES):
                with TemporaryDirectory(prefix="tfm-") as folder:
                    state = Path(folder, "state")
                    start(speed.of(trainings), controlled(policy), state)
                    history, _ = read_history(state, MOST_HISTORY)
                (out / f"{name}-{policy}-{number}.json").write_bytes(msgspec.json.encode(history))
                live[policy].append(history)
                say(f"{name}  {policy}: {measures(history)[0]:.1f} s")
            found += compared(name, live, curves, len(os.sched_getaffinity(0)))
            results.write(rows(found))
    results.tell()


def simulated(names: Sequence[str], recorded: Path, out: Path) -> None:
    """Simulate what was recorded by an earlier run again, write and print."""
    import msgspec

    from benchmarks.common.results import Results
    from tf_malleable.api.history import History

    curves = msgspec.json.decode((recorded / _CURVES).read_bytes(), type=History)
    cores = json.loads((recorded / "results.json").read_text())["machine"]["cpus"]
    results = Results("validation", out, policies=POLICIES, recorded=recorded.name)
    found: list[Compared] = []
    for name in names:
        live = {
            policy: [
                msgspec.json.decode(path.read_bytes(), type=History)
                for path in sorted(recorded.glob(f"{name}-{policy}-*.json"))
            ]
            for policy in POLICIES
        }
        missing = [policy for policy, histories in live.items() if not histories]
        if missing:
            raise BenchmarkError(f"{recorded} has no run of {name} under {', '.join(missing)}")
        found += compared(name, live, curves, cores)
        results.write(rows(found))
    results.tell()


def _measured(speed: Pace) -> History:
    """Return the history of every program with each number of cores of two.

    Two of it share them, and then one has both.
    """
    from benchmarks.common.configurations import controlled
    from benchmarks.common.controller import controller
    from benchmarks.common.runs import run_trainings
    from tf_malleable.api.history import MOST_HISTORY
    from tf_malleable.controller.state.store import read_history

    programs = {each.name: each for _, made in WORKLOADS.items() for each in made.trainings}
    with TemporaryDirectory(prefix="tfm-") as folder:
        state = Path(folder, "state")
        with controller("equal", state) as started:
            for name, steps in _STEPS.items():
                one = replace(programs[name], steps=steps)
                for count in (2, 1):
                    # A little later, or they would be one and the same job.
                    alike = [replace(one, arrival=0.01 * number) for number in range(count)]
                    run_trainings(speed.of(alike), controlled("equal"), started.client)
        history, _ = read_history(state, MOST_HISTORY)
    return history


def _runner(name: str, stack: ExitStack) -> tuple[Sequence[Training], Start]:
    """Return a workload, and what runs it under a controller with this state file."""
    from benchmarks.common.controller import controller
    from benchmarks.common.runs import run_trainings
    from benchmarks.containers import arrivals
    from benchmarks.containers.place import place

    if name == CONTAINERS:
        return arrivals.trainings(), partial(arrivals.run_containers, stack.enter_context(place()))

    def start(trainings: Sequence[Training], how: Configuration, state: Path) -> None:
        assert how.policy is not None
        with controller(how.policy, state) as started:
            run_trainings(trainings, how, started.client)

    return WORKLOADS[name].trainings, start


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = CommandLine(
        "validation", "Compare simulations with real runs.", "out/validation", TITLES
    )
    line.add_argument("--rounds", type=positive, default=1, help="runs under each policy")
    line.add_argument(
        "--recorded", type=Path, help="simulate the runs in this folder again, and run nothing"
    )
    said = line.parse(arguments)
    names = said.only or tuple(TITLES)
    if said.recorded is not None:
        return finish("validation", lambda: simulated(names, said.recorded, said.out))
    return finish("validation", lambda: run(names, said.rounds, said.out))


if __name__ == "__main__":
    sys.exit(main())
