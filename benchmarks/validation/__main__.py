# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Compare simulations of the workloads of `benchmarks.many` with what really happened.

Each workload is run under every policy. A simulation of one of them knows of its jobs only what
the history of a run under another policy says.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from benchmarks.common.command_line import CommandLine, finish, positive, sayer
from benchmarks.many.workloads import WORKLOADS

if TYPE_CHECKING:
    from benchmarks.common.rows import Row
    from tf_malleable.api.history import History

# The first is where the others' jobs are learned from; its own from the second.
POLICIES: Final = ("equal", "lend+efficient", "lend+srpt", "fcfs-strict")
_MOST_PERCENT: Final = 5.0


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


def compared(workload: str, live: Mapping[str, Sequence[History]], cores: int) -> list[Compared]:
    """Return every run of a workload beside its simulation.

    Args:
        workload: Its letter.
        live: Histories of the runs, by policy.
        cores: Number of cores.
    """
    from tf_malleable.model import Machine
    from tf_malleable.simulate.replay import replayed
    from tf_malleable.simulate.simulation import Scenario, simulate
    from tf_malleable.simulate.workload import Assumed

    first, second, *_ = live
    found = []
    for policy, histories in live.items():
        source = second if policy == first else first
        tasks = replayed(live[source][0], Assumed()).tasks
        outcome = simulate(tasks, policy, Scenario((Machine.flat(cores),)))
        simulated = measures(outcome.history)
        found += [Compared(workload, policy, measures(each), simulated) for each in histories]
    return found


def rows(found: Sequence[Compared]) -> list[Row]:
    """Return by how much each simulation is off."""
    from benchmarks.common.estimates import estimate
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
                    workload=WORKLOADS[workload].title,
                    remark=said,
                )
            )
    return made


def run(letters: Sequence[str], policies: Sequence[str], rounds: int, out: Path) -> None:
    """Run, simulate, write and print."""
    from benchmarks.common import pace
    from benchmarks.common.configurations import controlled
    from benchmarks.common.controller import controller
    from benchmarks.common.results import Results
    from benchmarks.common.runs import run_trainings
    from tf_malleable.api.history import MOST_HISTORY
    from tf_malleable.controller.state.store import read_history

    say, results = sayer(), Results("validation", out, rounds=rounds, policies=policies)
    speed = pace.measure(say)
    found: list[Compared] = []
    for letter in letters:
        chosen = WORKLOADS[letter]
        chosen = replace(chosen, trainings=speed.of(chosen.trainings))
        live: dict[str, list[History]] = {policy: [] for policy in policies}
        for _ in range(rounds):
            for policy in policies:
                with TemporaryDirectory() as folder:
                    state = Path(folder, "state")
                    with controller(policy, state) as started:
                        run_trainings(chosen.trainings, controlled(policy), started.client)
                    history, _ = read_history(state, MOST_HISTORY)
                live[policy].append(history)
                say(f"{letter}  {policy}: {measures(history)[0]:.1f} s")
        found += compared(letter, live, len(os.sched_getaffinity(0)))
        results.write(rows(found))
    results.tell()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    titles = {letter: workload.title for letter, workload in WORKLOADS.items()}
    line = CommandLine(
        "validation", "Compare simulations with real runs.", "out/validation", titles
    )
    line.add_argument("--rounds", type=positive, default=1, help="runs under each policy")
    said = line.parse(arguments)
    return finish(
        "validation", lambda: run(said.only or tuple(titles), POLICIES, said.rounds, said.out)
    )


if __name__ == "__main__":
    sys.exit(main())
