# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure elastic training: sums, pauses, accuracy, and several workers against one."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common.command_line import CommandLine, Say, finish, positive, sayer
from benchmarks.common.resuming import Samples, earlier

_SUMS: Final = {
    "unix": "sums through a Unix socket, as processes of one machine make them",
    "tcp": "sums through TCP over the loopback device, as processes of several machines do",
    "ring": "sums by TensorFlow's own ring all-reduce, which is TCP over the loopback device",
}
_PAUSES: Final = {
    "pauses-1m": "of two workers while a third joins, leaves and is killed; 1 M parameters",
    "pauses-25m": "the same with 25 M",
    "pauses-keras-1m": "the same of Keras trainings, 1 M",
    "pauses-keras-25m": "of Keras trainings, 25 M",
}
MEASURES: Final = {
    **_SUMS,
    **_PAUSES,
    "accuracy": "of models whose workers came, left and were killed, against stock Keras",
    "scaling": "two workers of a core each against one of two cores",
    "servers": "two workers with one and two servers against two without",
}
SIZES: Final = (1_000_000, 25_000_000)
_TIMES: Final = 10
_MOST_SEED: Final = 10_000


def seeds(text: str) -> range:
    """Return the seeds of FIRST-LAST, or of a single one."""
    found = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", text, re.ASCII)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if not first <= last <= _MOST_SEED:
        raise argparse.ArgumentTypeError(
            f"must be FIRST-LAST, such as 0-15, from 0 to {_MOST_SEED}, not {text!r}"
        )
    return range(first, last + 1)


class Run:
    """One call of the benchmark."""

    def __init__(self, samples: Samples, keep: Callable[[], None], say: Say) -> None:
        """Prepare.

        Args:
            samples: Those of earlier calls, to which more are added.
            keep: Writes them down.
            say: Says how far it is.
        """
        self._samples, self._keep, self._say = samples, keep, say

    def measure(self, kinds: Sequence[str], rounds: int, seeds: Sequence[int]) -> None:
        """Measure all that was selected: each in turn, and that in each round."""
        for number in range(rounds):
            for kind in [each for each in kinds if each != "accuracy"]:
                self._say(f"round {number + 1} of {rounds}: {kind}")
                self._add(kind, _round(kind))
        done = [each["seed"] for each in self._samples.get("accuracy", [])]
        for seed in seeds if "accuracy" in kinds else ():
            if seed not in done:
                self._say(f"accuracy: seed {seed}")
                from benchmarks.elastic import accuracy

                self._add("accuracy", vars(accuracy.measure(seed)))

    def _add(self, kind: str, found: Any) -> None:  # noqa: ANN401 - plain data
        self._samples.setdefault(kind, []).append(found)
        self._keep()


def _round(kind: str) -> dict[str, Any]:
    """Measure one thing once, in new processes; return plain data."""
    from benchmarks.elastic import exchange, rescales, scaling

    if kind in _SUMS:
        return {str(words): vars(exchange.measure(kind, words, _TIMES)) for words in SIZES}
    if kind in _PAUSES:
        return dict(rescales.measure(rescales.PROGRAMS[kind]))
    return dict(scaling.measure(scaling.COMPARISONS[kind]))


def run(kinds: Sequence[str], rounds: int, seeds: Sequence[int], out: Path, resume: bool) -> None:
    """Measure, write and print."""
    from benchmarks.common import machine  # Heavy, and so only when nothing is refused.
    from benchmarks.common.results import Results
    from benchmarks.elastic.rows import rows

    samples: Samples = {}
    calls: list[Any] = []
    if resume:
        samples, calls = earlier(out / "results.json", machine.describe()["commit"])
    results = Results("elastic", out, rounds=rounds, times=_TIMES, calls=calls)

    def keep() -> None:
        results.write(rows({name: samples.get(name, []) for name in MEASURES}), samples=samples)

    Run(samples, keep, sayer()).measure(kinds, rounds, seeds)
    keep()
    results.tell()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = CommandLine("elastic", str(__doc__), "out/elastic", MEASURES)
    line.add_argument("--rounds", type=positive, default=5, help="new processes of each kind")
    line.add_argument(
        "--seeds", type=seeds, default=range(16), metavar="FIRST-LAST", help="of accuracy"
    )
    line.add_argument(
        "--resume", action="store_true", help="add to the samples that --out has of this commit"
    )
    said = line.parse(arguments)
    kinds = said.only or tuple(MEASURES)
    return finish("elastic", lambda: run(kinds, said.rounds, said.seeds, said.out, said.resume))


if __name__ == "__main__":
    sys.exit(main())
