# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure sums of gradients by two processes, and their pauses when others come and go."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.common.command_line import CommandLine, finish, positive, sayer

if TYPE_CHECKING:
    from benchmarks.common.rows import Row
    from benchmarks.elastic.exchange import Sums

MEASURES: Final = {
    "unix": "through a Unix socket, as processes of one machine do",
    "tcp": "through TCP over the loopback device, as processes of several machines do",
    "pauses": "of two workers while a third joins, leaves and is killed",
}
_SUMS: Final = ("unix", "tcp")
SIZES: Final = {1_000_000: None, 25_000_000: 0.8}
"""Parameters, and within how many seconds they must be summed."""
_TIMES: Final = 10
# Parameters; how often a round does each thing; the median and the longest pause allowed.
PAUSES: Final = {1_000_000: (10, 0.1, 1.0), 25_000_000: (3, None, 3.0)}

Pauses = Mapping[tuple[int, str], Sequence[Sequence[float]]]


def rows(found: Mapping[tuple[str, int], Sequence[Sums]]) -> list[Row]:
    """Return a row of wall time and one of CPU time for each kind and size."""
    from benchmarks.common.estimates import estimate
    from benchmarks.common.rows import Row, Target

    made = []
    for (kind, words), samples in found.items():
        seconds = SIZES[words]
        title = f"{words // 1_000_000} M parameters"
        made.append(
            Row(
                kind,
                "one sum",
                "seconds",
                estimate([each.seconds for each in samples]),
                None if seconds is None else Target(seconds),
                workload=title,
            )
        )
        cpu = estimate([each.cpu for each in samples])
        made.append(Row(kind, "CPU time of both", "seconds", cpu, workload=title))
    return made


def pause_rows(found: Pauses) -> list[Row]:
    """Return a row of the median pause and one of the longest, for each size and reason."""
    from benchmarks.common.estimates import estimate, highest
    from benchmarks.common.rows import Row, Target

    made = []
    for (words, reason), samples in found.items():
        _, usual, longest = PAUSES[words]
        title = f"{words // 1_000_000} M parameters"
        target = None if usual is None else Target(usual)
        made += [
            Row("pauses", reason, "seconds", estimate(samples), target, workload=title),
            Row(
                "pauses",
                f"{reason}, the longest",
                "seconds",
                estimate(samples, highest),
                Target(longest),
                workload=title,
            ),
        ]
    return made


def run(kinds: Sequence[str], rounds: int, out: Path) -> None:
    """Measure, write and print."""
    from benchmarks.common.results import Results  # Heavy, and so only when nothing is refused.
    from benchmarks.elastic import rescales
    from benchmarks.elastic.exchange import measure

    results, say = Results("elastic", out, rounds=rounds, times=_TIMES), sayer()
    found: dict[tuple[str, int], list[Sums]] = {}
    pauses: dict[tuple[int, str], list[list[float]]] = {}
    for number in range(rounds):
        for kind in [each for each in _SUMS if each in kinds]:
            for words in SIZES:
                sums = measure(kind, words, _TIMES)
                found.setdefault((kind, words), []).append(sums)
                say(f"round {number + 1}: {kind}, {words:,} parameters: {max(sums.seconds):.3f} s")
                results.write(rows(found) + pause_rows(pauses))
        for words, (times, *_) in PAUSES.items() if "pauses" in kinds else ():
            for reason, seconds in rescales.measure(words, times).items():
                pauses.setdefault((words, reason), []).append(seconds)
                say(f"round {number + 1}: {reason}, {words:,} parameters: {max(seconds):.3f} s")
            results.write(rows(found) + pause_rows(pauses))
    results.tell()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = CommandLine("elastic", str(__doc__), "out/elastic", MEASURES)
    line.add_argument("--rounds", type=positive, default=3, help="new processes of each kind")
    said = line.parse(arguments)
    kinds = said.only or tuple(MEASURES)
    return finish("elastic", lambda: run(kinds, said.rounds, said.out))


if __name__ == "__main__":
    sys.exit(main())
