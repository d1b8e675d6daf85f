# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure how many events of 64 simulated CPUs a minute on one core takes, and what memory."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.common.command_line import CommandLine, finish, positive, sayer
from benchmarks.simulate.case import CORES, SEED, Took, simulated

if TYPE_CHECKING:
    from benchmarks.common.rows import Row

_CURVES: Final = "curves=amdahl:0.02|amdahl:0.05|amdahl:0.1|amdahl:0.3,users=1,idle=0"
# Name, title and what the generator makes.
WORKLOADS: Final = {
    "busy": (
        "up to 100 jobs at once",
        f"jobs=2000,load=0.7,sizes=lognormal,sigma=1.2,mean=3000,max-cores=32,{_CURVES}",
    ),
    "backlog": (
        "1000 jobs at once",
        f"jobs=1100,load=50,sizes=lognormal,sigma=1.2,mean=3000,max-cores=32,{_CURVES}",
    ),
    "week": (
        "10,000 jobs",
        f"jobs=10000,load=0.7,sizes=lognormal,sigma=1.2,mean=3000,max-cores=32,{_CURVES}",
    ),
}
_EVENTS: Final = {"busy": 100_000, "backlog": 50_000}
_SECONDS: Final = 60.0
_GIGABYTES: Final = 1.0


def rows(found: Mapping[str, Mapping[str, Sequence[Took]]], default: str) -> list[Row]:
    """Return what each policy took with each workload; the default has targets."""
    from benchmarks.common.estimates import estimate
    from benchmarks.common.rows import Row, Target

    made = []
    for policy, workloads in found.items():
        for name, samples in workloads.items():
            title, _ = WORKLOADS[name]
            rates = [took.events / took.seconds * 60 / 1e3 for took in samples]
            first = samples[0]
            target = _EVENTS.get(name) if policy == default else None
            made.append(
                Row(
                    name,
                    f"{policy}: thousand events a minute",
                    "",
                    estimate([rates]),
                    None if target is None else Target(target / 1e3, at_least=True),
                    workload=title,
                    remark=f"{first.events} events, {first.decisions} decisions,"
                    f" {first.most_live} jobs at once",
                )
            )
            if name != "week":
                continue
            is_default = policy == default
            made.append(
                Row(
                    name,
                    f"{policy}: CPU time",
                    "seconds",
                    estimate([[took.seconds for took in samples]]),
                    Target(_SECONDS) if is_default else None,
                    workload=title,
                )
            )
            made.append(
                Row(
                    name,
                    f"{policy}: gigabytes of memory",
                    "",
                    estimate([[took.mem / 1e9 for took in samples]]),
                    Target(_GIGABYTES) if is_default else None,
                    workload=title,
                )
            )
    return made


def run(names: Sequence[str], policies: Sequence[str], rounds: int, out: Path) -> None:
    """Measure, write and print."""
    from benchmarks.common.results import Results  # Heavy, and so only when nothing is refused.
    from tf_malleable.policies.registry import DEFAULT

    results, say = Results("simulate", out, rounds=rounds, cores=CORES, seed=SEED), sayer()
    chosen = policies or (DEFAULT, "equal")
    found: dict[str, dict[str, list[Took]]] = {}
    for number in range(rounds):
        for name in names:
            for policy in chosen:
                _, text = WORKLOADS[name]
                samples = found.setdefault(policy, {}).setdefault(name, [])
                samples.append(simulated(text, policy))
                say(f"round {number + 1}: {name}, {policy}")
                results.write(rows(found, DEFAULT))
    results.tell()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = CommandLine(
        "simulate", str(__doc__), "out/simulate", {k: title for k, (title, _) in WORKLOADS.items()}
    )
    line.add_argument("--rounds", type=positive, default=3, help="simulations of each kind")
    line.add_argument("--policies", nargs="*", default=[], help="in place of the default and equal")
    said = line.parse(arguments)
    names = said.only or tuple(WORKLOADS)
    return finish("simulate", lambda: run(names, said.policies, said.rounds, said.out))


if __name__ == "__main__":
    sys.exit(main())
