# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure how long two processes on one machine take to sum their gradients."""

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
}
SIZES: Final = {1_000_000: None, 25_000_000: 0.8}
"""Parameters, and within how many seconds they must be summed."""
_TIMES: Final = 10


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


def run(kinds: Sequence[str], rounds: int, out: Path) -> None:
    """Measure, write and print."""
    from benchmarks.common.results import Results  # Heavy, and so only when nothing is refused.
    from benchmarks.elastic.exchange import measure

    results, say = Results("elastic", out, rounds=rounds, times=_TIMES), sayer()
    found: dict[tuple[str, int], list[Sums]] = {}
    for number in range(rounds):
        for kind in kinds:
            for words in SIZES:
                sums = measure(kind, words, _TIMES)
                found.setdefault((kind, words), []).append(sums)
                say(f"round {number + 1}: {kind}, {words:,} parameters: {max(sums.seconds):.3f} s")
                results.write(rows(found))
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
