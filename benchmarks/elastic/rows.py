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
from benchmarks.elastic.scaling import COMPARISONS, WAYS

Samples = Mapping[str, Sequence[Any]]
"""What each round has brought, by measure: plain data."""

SUMS: Final = {"unix": "Unix socket", "tcp": "TCP", "ring": "TensorFlow's ring"}
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
            made += _comparison(measure, rounds)
    if samples.get("ring"):
        made += [_against_ring(kind, samples) for kind in ("unix", "tcp") if samples.get(kind)]
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
            Row(kind, f"one sum, {SUMS[kind]}", "seconds", seconds, target, _title(words)),
            Row(kind, f"CPU time of both, {SUMS[kind]}", "seconds", cpu, None, _title(words)),
        ]
    return made


def _against_ring(kind: str, samples: Samples) -> Row:
    def medians(which: str) -> list[float]:
        return [median(np.asarray(each[str(LARGE)]["seconds"])) for each in samples[which]]

    pairs = zip(medians(kind), medians("ring"), strict=False)
    found = estimate([[ours / theirs for ours, theirs in pairs]])
    label = f"one sum, {SUMS[kind]} / {SUMS['ring']}"
    return Row(kind, label, "ratio", found, None, _title(str(LARGE)))


def _pauses(measure: str, program: Program, rounds: Sequence[Any]) -> list[Row]:
    every = [[second for reason in REASONS for second in each[reason]] for each in rounds]
    count = sum(map(len, every))
    usual = None if program.usual is None else Target(program.usual)
    longest = Target(program.longest)
    of_many, of_few = (longest, None) if count >= _MANY else (None, longest)
    made = [
        Row(measure, f"all {count}, {label}", "seconds", estimate(every, statistic), target)
        for label, statistic, target in (
            ("median", median, usual),
            ("99th percentile", percentile_99, of_many),
            ("the longest", highest, of_few),
        )
    ]
    for reason in REASONS:
        found = [each[reason] for each in rounds]
        if not any(found):
            continue
        most = max(max(each, default=0.0) for each in found)
        remark = f"{sum(map(len, found))}, the longest {most * 1e3:.0f} ms"
        made.append(Row(measure, f"{reason}, median", "seconds", estimate(found), remark=remark))
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


def _comparison(measure: str, rounds: Sequence[Any]) -> list[Row]:
    made = []
    for ours, base in COMPARISONS[measure].pairs.items():
        turns = [each[ours] for each in rounds]
        speed, cpu = (
            estimate([[turn[above][what] / turn[below][what] for turn in each] for each in turns])
            for what, above, below in ((0, base, ours), (1, ours, base))
        )
        names = f"{WAYS[ours].title} / {WAYS[base].title}"
        walls = [median(np.asarray([t[w][0] for e in turns for t in e])) for w in (ours, base)]
        remark = " against ".join(f"{wall * 1e3:.1f} ms" for wall in walls)
        target = Target(_THROUGHPUT, at_least=True) if ours == "two" else None
        made += [
            Row(measure, f"throughput, {names}", "ratio", speed, target, remark=remark),
            Row(measure, f"CPU time, {names}", "ratio", cpu),
        ]
    return made
