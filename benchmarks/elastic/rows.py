# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""From samples of elastic trainings to rows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from benchmarks.common.estimates import Estimate, estimate, highest, median, once, percentile_99
from benchmarks.common.rows import Row, Target
from benchmarks.elastic.exchange import LARGE
from benchmarks.elastic.rescales import PROGRAMS, REASONS, Program
from benchmarks.elastic.scaling import PAIRS, WAYS

Samples = Mapping[str, Sequence[Any]]
"""What each round has brought, by measure: plain data."""

SUMS: Final = ("unix", "tcp", "ring")
_SUM_SECONDS: Final = 0.8
_THROUGHPUT: Final = 0.85
# From so many on, the 99th percentile says more than the longest.
_MANY: Final = 100


def rows(samples: Samples) -> list[Row]:
    """Return all rows that the samples allow."""
    made = []
    for measure, rounds in samples.items():
        if not rounds:
            continue
        if measure in SUMS:
            made += _sums(measure, rounds)
        elif measure in PROGRAMS:
            made += _pauses(measure, PROGRAMS[measure], rounds)
        elif measure == "accuracy":
            made += _accuracy(rounds)
        else:
            made += _scaling(rounds)
    if samples.get("ring"):
        made += [_against_ring(kind, samples) for kind in SUMS[:2] if samples.get(kind)]
    return made


def _title(words: str) -> str:
    return f"{int(words) // 1_000_000} M parameters"


def _sums(kind: str, rounds: Sequence[Any]) -> list[Row]:
    made = []
    for words in rounds[0]:
        seconds = estimate([each[words]["seconds"] for each in rounds])
        cpu = estimate([each[words]["cpu"] for each in rounds])
        is_held = int(words) == LARGE and kind != "ring"
        target = Target(_SUM_SECONDS) if is_held else None
        made += [
            Row(kind, "one sum", "seconds", seconds, target, _title(words)),
            Row(kind, "CPU time of both", "seconds", cpu, None, _title(words)),
        ]
    return made


def _against_ring(kind: str, samples: Samples) -> Row:
    def medians(which: str) -> list[float]:
        return [median(np.asarray(each[str(LARGE)]["seconds"])) for each in samples[which]]

    pairs = zip(medians(kind), medians("ring"), strict=False)
    found = estimate([[ours / theirs for ours, theirs in pairs]])
    return Row(kind, "one sum / TensorFlow's ring", "ratio", found, None, _title(str(LARGE)))


def _pauses(measure: str, program: Program, rounds: Sequence[Any]) -> list[Row]:
    every = [[second for reason in REASONS for second in each[reason]] for each in rounds]
    count = sum(map(len, every))
    usual = None if program.usual is None else Target(program.usual)
    is_many = count >= _MANY
    made = [
        Row(measure, f"all {count}, median", "seconds", estimate(every), usual, program.title),
        Row(
            measure,
            f"all {count}, 99th percentile",
            "seconds",
            estimate(every, percentile_99),
            Target(program.longest) if is_many else None,
            program.title,
        ),
        Row(
            measure,
            f"all {count}, the longest",
            "seconds",
            estimate(every, highest),
            None if is_many else Target(program.longest),
            program.title,
        ),
    ]
    for reason in REASONS:
        found = [each[reason] for each in rounds]
        longest = max(max(each, default=0.0) for each in found)
        remark = f"{sum(map(len, found))}, the longest {longest * 1e3:.0f} ms"
        label = f"{reason}, median"
        made.append(Row(measure, label, "seconds", estimate(found), None, program.title, remark))
    return made


def _accuracy(pairs: Sequence[Any]) -> list[Row]:
    def mean(values: np.ndarray) -> float:
        return float(np.mean(values))

    def of(values: Sequence[float]) -> Estimate:
        return estimate([[100 * each for each in values]], mean)

    stock, elastic = ([each[name] for each in pairs] for name in ("stock", "elastic"))
    difference = of([ours - theirs for ours, theirs in zip(elastic, stock, strict=True)])
    changes = [change for each in pairs for change in each["changes"]]
    counted = ", ".join(f"{changes.count(each)} {each}" for each in dict.fromkeys(changes))
    seeds = f"{len(pairs)} seeds"
    same = sum(each["same_bits"] for each in pairs)
    return [
        Row("accuracy", f"stock, mean of {seeds}", "%", of(stock)),
        Row("accuracy", f"elastic, mean of {seeds}", "%", of(elastic), remark=counted),
        Row("accuracy", "elastic less stock, mean", "%", difference),
        Row(
            "accuracy",
            "elastic less stock, upper end of the interval",
            "%",
            once(difference.high),
            Target(0.0, at_least=True),
        ),
        Row(
            "accuracy",
            "share with the bits of one undisturbed worker",
            "ratio",
            once(same / len(pairs)),
            Target(1.0, at_least=True),
        ),
    ]


def _scaling(rounds: Sequence[Any]) -> list[Row]:
    made = []
    for workload in rounds[0]:
        for ours, base in PAIRS.items():
            turns = [each[workload][ours] for each in rounds]
            speed, cpu = (
                estimate([[turn[base][what] / turn[ours][what] for turn in each] for each in turns])
                for what in (0, 1)
            )
            names = f"{WAYS[ours].title} / {WAYS[base].title}"
            walls = [median(np.asarray([t[w][0] for e in turns for t in e])) for w in (ours, base)]
            remark = " against ".join(f"{wall * 1e3:.1f} ms" for wall in walls)
            is_held = (ours, workload) == ("two", "cnn")
            target = Target(_THROUGHPUT, at_least=True) if is_held else None
            more = Estimate(1 / cpu.value, 1 / cpu.high, 1 / cpu.low, cpu.samples)
            made += [
                Row("scaling", f"throughput, {names}", "ratio", speed, target, workload, remark),
                Row("scaling", f"CPU time, {names}", "ratio", more, None, workload),
            ]
    return made
