# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Compare simulations of the workloads of `benchmarks.many` with what really happened.

Each workload is run under every policy. A simulation of one of them knows of its jobs only what
the history of a run under another policy says, and how its programs scale, which is measured
apart. The mean over all runs of a policy is compared with the mean over the simulations of all
runs under the other policies, with several seeds, as a seed says when each job's agent reports:
what a simulation says is an expectation, and on a virtual machine the same run may take a quarter
longer another time. Only the mean of several rounds tells more than that.
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
    from tf_malleable.api.schema.history import History, JobRecord
    from tf_malleable.simulate.engine.workload import Assumed

# Runs trainings in a configuration, with a state file.
Start = Callable[[Sequence["Training"], "Configuration", Path], object]

POLICIES: Final = ("equal", "lend+efficient", "lend+srpt", "fcfs-strict")
_MOST_PERCENT: Final = 5.0
_SEEDS: Final = range(8)
# Live ones that differ by less are equal.
_DIFFERENT: Final = 1.05
_CURVES: Final = "curves.json"
# About twenty seconds on one core, without the start: the first seconds are slower, which hides
# a part of what a second core gives to short runs.
_STEPS: Final = {
    "cnn-64": 1750,
    "cnn-128": 550,
    "dense-1024": 2250,
    "dense-1536": 1150,
    "rnn-32": 2300,
}
# As in its workload: between waits that are nearer to each other a second core gives more.
_FETCHING_STEPS: Final = {"reader-1024": 1260}
# A program that is measured runs for so many times as long, and for a while beside another one.
_MEASURED_TIMES: Final = 2.25
_BESIDE_TIMES: Final = 0.75
_BESIDE_AFTER_SECONDS: Final = 9.0
CONTAINERS: Final = "containers"
TITLES: Final = {
    **{letter: workload.title for letter, workload in WORKLOADS.items()},
    CONTAINERS: "16 containers that arrive at random",
}


@dataclass(frozen=True)
class Compared:
    """Live runs and their simulations; makespan and mean turnaround in seconds.

    Attributes:
        workload: Name of the workload.
        policy: What the runs were under.
        runs: Both measures of each live run.
        simulated: Means over the simulations.
    """

    workload: str
    policy: str
    runs: tuple[tuple[float, float], ...]
    simulated: tuple[float, float]

    @property
    def live(self) -> tuple[float, float]:
        """The means over the live runs."""
        return _means(self.runs)

    def off(self, measure: int) -> float:
        """Return by how many percent the simulation is off; above 0: too long."""
        return 100 * (self.simulated[measure] / self.live[measure] - 1)


def _means(found: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return fmean(one for one, _ in found), fmean(one for _, one in found)


def measures(history: History) -> tuple[float, float]:
    """Return makespan and mean turnaround, in seconds."""
    summary = history.summary
    return summary.makespan or 0.0, summary.mean_turnaround or 0.0


def compared(
    workload: str,
    live: Mapping[str, Sequence[History]],
    curves: Sequence[JobRecord],
    cores: int,
    assumed: Assumed | None = None,
) -> list[Compared]:
    """Return the runs of a workload under each policy beside their simulations.

    Args:
        workload: Its name.
        live: The runs, by policy.
        curves: Jobs whose speeds were measured apart, with each number of cores.
        cores: Number of cores.
        assumed: Assumptions about jobs whose speeds are not known.
    """
    from tf_malleable.model import Machine
    from tf_malleable.simulate.engine.simulation import Scenario, simulate
    from tf_malleable.simulate.engine.workload import Assumed
    from tf_malleable.simulate.workloads.history_replay import replayed

    found = []
    for policy, mine in live.items():
        workloads = [
            replayed(each, assumed or Assumed(), curves).tasks
            for other, made in live.items()
            if other != policy
            for each in made
        ]
        simulations = [
            measures(simulate(tasks, policy, Scenario((Machine.flat(cores),), seed=seed)).history)
            for tasks in workloads
            for seed in _SEEDS
        ]
        runs = tuple(map(measures, mine))
        found.append(Compared(workload, policy, runs, _means(simulations)))
    return found


def rows(found: Sequence[Compared]) -> list[Row]:
    """Return by how much each simulation is off."""
    from benchmarks.common.estimates import once
    from benchmarks.common.rows import Row, Target

    made = []
    for one in found:
        for measure, name in enumerate(("makespan", "mean turnaround")):
            live = sorted(run[measure] for run in one.runs)
            said = f"{one.simulated[measure]:.1f} for {one.live[measure]:.1f} s"
            if len(live) > 1:
                said += f" ({live[0]:.1f} to {live[-1]:.1f} in {len(live)} runs)"
            made.append(
                Row(
                    one.workload,
                    f"{one.policy}: {name}, off by",
                    "%",
                    once(abs(one.off(measure))),
                    Target(_MOST_PERCENT),
                    workload=TITLES[one.workload],
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
    if 1 / _DIFFERENT < live < _DIFFERENT:
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
    from tf_malleable.api.schema.history import MOST_HISTORY
    from tf_malleable.controller.state.store import read_history

    say, results = sayer(), Results("validation", out, rounds=rounds, policies=POLICIES)
    with ExitStack() as stack:
        runners = {name: _runner(name, stack) for name in names}
        speed = pace.measure(say)
        curves: list[JobRecord] = []
        live: dict[str, dict[str, list[History]]] = {
            name: {policy: [] for policy in POLICIES} for name in runners
        }
        for number in range(1, rounds + 1):
            # Again in each round, as the machine may be a little faster or slower by then.
            curves += _measured(speed, number)
            (out / _CURVES).write_bytes(msgspec.json.encode(curves))
            say(f"round {number} of {rounds}: speeds with each number of cores")
            for (name, (trainings, start)), policy in itertools.product(runners.items(), POLICIES):
                with TemporaryDirectory(prefix="tfm-") as folder:
                    state = Path(folder, "state")
                    start(speed.of(trainings), controlled(policy), state)
                    history, _ = read_history(state, MOST_HISTORY)
                file = out / f"{name}-{policy}-{number}.json"
                file.write_bytes(msgspec.json.encode(history))
                live[name][policy].append(history)
                say(f"{name}  {policy}: {measures(history)[0]:.1f} s")
            cores = len(os.sched_getaffinity(0))
            results.write(
                rows(
                    [
                        each
                        for name, runs in live.items()
                        for each in compared(name, runs, curves, cores)
                    ]
                )
            )
    results.tell()


def simulated(names: Sequence[str], recorded: Sequence[Path], out: Path) -> None:
    """Simulate what was recorded by earlier runs again, write and print.

    Args:
        names: Workloads.
        recorded: Folders of these runs; the rounds in all of them count.
        out: Folder for the results.

    Raises:
        BenchmarkError: A run is missing, or the machines differ in size.
    """
    import msgspec

    from benchmarks.common.results import Results
    from tf_malleable.api.schema.history import History, JobRecord

    curves: list[JobRecord] = []
    machines: set[int] = set()
    for folder in recorded:
        curves += msgspec.json.decode((folder / _CURVES).read_bytes(), type=list[JobRecord])
        machines.add(json.loads((folder / "results.json").read_text())["machine"]["cpus"])
    if len(machines) > 1:
        sizes = " and ".join(map(str, sorted(machines)))
        raise BenchmarkError(f"--recorded must name runs on as many CPUs, not on {sizes}")
    (cores,) = machines
    said = [folder.name for folder in recorded]
    results = Results("validation", out, policies=POLICIES, recorded=said)
    found: list[Compared] = []
    for name in names:
        live = {
            policy: [
                msgspec.json.decode(path.read_bytes(), type=History)
                for folder in recorded
                for path in sorted(folder.glob(f"{name}-{policy}-*.json"))
            ]
            for policy in POLICIES
        }
        missing = [policy for policy, runs in live.items() if not runs]
        if missing:
            folders = " or ".join(map(str, recorded))
            raise BenchmarkError(f"no run of {name} under {', '.join(missing)} in {folders}")
        found += compared(name, live, curves, cores)
        results.write(rows(found))
    results.tell()


def _measured(speed: Pace, number: int) -> Sequence[JobRecord]:
    """Return jobs of every program with each number of cores of two.

    Args:
        speed: Pace of this machine.
        number: Number of the round, from 1: each has other programs beside each other.
    """
    from benchmarks.common.configurations import controlled
    from benchmarks.common.controller import controller
    from benchmarks.common.runs import run_trainings
    from tf_malleable.api.schema.history import MOST_HISTORY
    from tf_malleable.controller.state.store import read_history

    programs = {each.name: each for _, made in WORKLOADS.items() for each in made.trainings}
    measured, groups = [], []
    for index, (name, steps) in enumerate(_STEPS.items()):
        one = replace(programs[name], steps=round(_MEASURED_TIMES * steps))
        # It has both cores, then one beside another program, as in workloads, then both again.
        beside, its = _other(index, number)
        other = replace(
            programs[beside], steps=round(_BESIDE_TIMES * its), arrival=_BESIDE_AFTER_SECONDS
        )
        measured.append(one)
        groups.append((one, other))
    for name, steps in _FETCHING_STEPS.items():
        # Speeds of one that waits are known if it had the same cores all the time.
        one = replace(programs[name], steps=steps)
        measured.append(one)
        # A little later, or they would be one and the same job.
        groups += [(one, replace(one, arrival=0.01)), (one,)]
    with TemporaryDirectory(prefix="tfm-") as folder:
        state = Path(folder, "state")
        with controller("equal", state) as started:
            for group in groups:
                run_trainings(speed.of(group), controlled("equal"), started.client)
        history, _ = read_history(state, MOST_HISTORY)
    commands = {each.command for each in speed.of(measured)}
    return [job for job in history.jobs if tuple(job.command) in commands]


def _other(index: int, number: int) -> tuple[str, int]:
    """Return the program beside the one with this index, another one in each round."""
    programs = tuple(_STEPS.items())
    return programs[(index + 1 + (number - 1) % (len(programs) - 1)) % len(programs)]


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
        "--recorded",
        type=Path,
        nargs="+",
        help="simulate the runs in these folders again, and run nothing",
    )
    said = line.parse(arguments)
    names = said.only or tuple(TITLES)
    if said.recorded is not None:
        return finish("validation", lambda: simulated(names, said.recorded, said.out))

    from benchmarks.containers.place import ERRORS  # Heavy, and so only when nothing is refused.

    return finish("validation", lambda: run(names, said.rounds, said.out), *ERRORS)


if __name__ == "__main__":
    sys.exit(main())
