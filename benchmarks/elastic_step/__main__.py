# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure a step of elastic training, alone with one and four shards, against plain fit()."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.common.command_line import BenchmarkError, CommandLine, finish, positive, sayer

if TYPE_CHECKING:
    from benchmarks.common.rows import Row

WORKLOADS: Final = {
    "cnn": "CNN, BatchNorm, Dropout, augmentation, 0.8 M",
    "lstm": "LSTM of 96 over 28 steps",
    "mlp": "three dense layers, 1.2 M",
}
STEPS: Final = 12


@dataclass(frozen=True)
class Member:
    """How a training is started; without shards, it is Keras's plain fit()."""

    name: str
    label: str
    shards: int | None = None
    threads: int | None = None
    target: float | None = None

    def environment(self, cpus: int) -> dict[str, str]:
        """Return the variables that say so."""
        said = {"TF_NUM_INTRAOP_THREADS": str(cpus), "TF_NUM_INTEROP_THREADS": str(cpus)}
        if self.shards is not None:
            from tf_malleable.elastic.settings import SETTINGS, MeshSettings

            asked = MeshSettings(None, b"", shards=self.shards, threads=self.threads)
            said[SETTINGS] = asked.encode()
        return said


PLAIN: Final = Member("plain", "plain fit()")
MEMBERS: Final = (
    Member("one", "one shard", shards=1, target=1.05),
    Member("four", "four shards", shards=4, target=1.20),
    Member("four-wide", "four shards, all threads in each", shards=4, threads=0),
)
# By workload, threads and member: CPU time and time of its slices, and of plain fit()'s.
Samples = dict[str, list[dict[str, float]]]


class Process:
    """A training under measurement."""

    def __init__(self, member: Member, workload: str, cpus: int) -> None:
        """Start it."""
        import tf_malleable
        from benchmarks.common.children import REPOSITORY, clean_environment

        package = str(Path(tf_malleable.__file__).parents[1])
        self._name = f"{member.name} {workload}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.elastic_step.training", workload, str(STEPS)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=clean_environment({**member.environment(cpus), "PYTHONPATH": package}),
            start_new_session=True,
        )

    def slice(self) -> dict[str, float]:
        """Train some steps; return the CPU time and the time of one.

        Raises:
            BenchmarkError: It has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise BenchmarkError(f"the training {self._name} has ended") from None
        answer = self._process.stdout.readline()
        if not answer:
            raise BenchmarkError(f"the training {self._name} has ended")
        return {name: value / STEPS for name, value in json.loads(answer).items()}

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


@contextmanager
def processes(workload: str, cpus: int) -> Iterator[dict[str, Process]]:
    """Start all trainings of a workload, and end them."""
    started: dict[str, Process] = {}
    try:
        for member in (PLAIN, *MEMBERS):
            started[member.name] = Process(member, workload, cpus)
        yield started
    finally:
        for process in started.values():
            process.stop()


def measure(workload: str, cpus: int, rounds: int) -> Samples:
    """Return slices of all trainings, in turns: each beside plain ones, before and after."""
    samples: Samples = {}
    with processes(workload, cpus) as started:
        for process in started.values():
            process.slice()
        for number in range(rounds):
            for member in MEMBERS:
                pair = [PLAIN.name, member.name]
                order = [*pair, *reversed(pair)] if number % 2 else [*reversed(pair), *pair]
                for name in order:
                    taken = started[name].slice()
                    key = name if name == member.name else f"{member.name} plain"
                    samples.setdefault(key, []).append(taken)
    return samples


def rows(
    workload: str, cpus: int, samples: Mapping[str, Sequence[Mapping[str, float]]]
) -> list[Row]:
    """Return a row for each member: its CPU time a step against plain fit()'s beside it."""
    from benchmarks.common.estimates import estimate
    from benchmarks.common.rows import Row, Target

    def ratios(member: Member, what: str) -> list[float]:
        ours, plain = samples[member.name], samples[f"{member.name} plain"]
        # Two slices a round.
        pairs = zip(ours[::2], ours[1::2], plain[::2], plain[1::2], strict=True)
        return [(a[what] + b[what]) / (c[what] + d[what]) for a, b, c, d in pairs]

    def row(member: Member) -> Row:
        plain = estimate([[taken["cpu"] for taken in samples[f"{member.name} plain"]]])
        wall = estimate([ratios(member, "wall")])
        return Row(
            "step",
            f"{member.label}, {cpus} thread{'s' * (cpus > 1)}",
            "ratio",
            estimate([ratios(member, "cpu")]),
            None if member.target is None else Target(member.target),
            workload,
            f"time x {wall.value:.3f}; plain {plain.value * 1e3:.1f} ms of CPU",
        )

    return [row(member) for member in MEMBERS]


def run(only: Sequence[str], rounds: int, out: Path) -> None:
    """Measure all that was selected, write and print it."""
    from benchmarks.common.results import Results

    results = Results("elastic_step", out, titles=WORKLOADS, rounds=rounds, steps=STEPS)
    say, found, kept = sayer(), [], {}
    for workload in only or WORKLOADS:
        for cpus in sorted({1, min(2, len(os.sched_getaffinity(0)))}):
            say(f"{workload} with {cpus} threads")
            samples = measure(workload, cpus, rounds)
            found += rows(workload, cpus, samples)
            kept[f"{workload} {cpus}"] = samples
            results.write(found, samples=kept)
    results.tell()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = CommandLine("elastic_step", str(__doc__), "out/elastic_step", WORKLOADS)
    line.add_argument("--rounds", type=positive, default=30, help="rounds for each workload")
    said = line.parse(arguments)
    return finish("elastic_step", lambda: run(said.only, said.rounds, said.out))


if __name__ == "__main__":
    sys.exit(main())
