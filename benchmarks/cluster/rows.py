# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""From samples of trainings in a cluster to rows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from benchmarks.cluster.names import DEATHS, GROWTH, JOBS, KILLS, VERTICAL
from benchmarks.common.estimates import Estimate, estimate, highest, median, once, percentile_99
from benchmarks.common.rows import Row, Target

Samples = Mapping[str, Sequence[Any]]
"""What each round has brought, by measure: plain data."""

CORES: Final = 2
_GAIN: Final = Target(90.0, at_least=True)
_SETTLED: Final = Target(1.0)
_REACTION: Final = Target(2.0)
_PART: Final = 1 / 3
_KINDS: Final = {
    "killed": "of a killed node",
    "silent": "of one that falls silent",
    "coordinator": "of the coordinator's",
}


def rows(samples: Samples) -> list[Row]:
    """Return all rows that the samples allow."""
    made = []
    for way in GROWTH:
        made += _training(way, samples.get(way, ()))
    if all(samples.get(way) for way in GROWTH):
        made += _gain(samples)
    made += _vertical(samples.get(VERTICAL, ()))
    for measure in DEATHS:
        made += _deaths(measure, samples.get(measure, ()))
    for way in JOBS:
        made += _jobs(way, samples.get(way, ()))
    made += _compared(samples)
    made += _kills(samples.get(KILLS, ()))
    return made


def _of(rounds: Sequence[Any], value: Callable[[Any], float]) -> Estimate:
    """Return the median of a value that each round has."""
    return estimate([[value(each)] for each in rounds])


def seconds(sample: Mapping[str, Any]) -> float:
    """Return how long a training took, from its first step to its last."""
    return float(sample["end"] - sample["begin"])


def _training(way: str, rounds: Sequence[Any]) -> list[Row]:
    if not rounds:
        return []

    def epoch(sample: Mapping[str, Any]) -> float:
        ends = [sample["begin"], *sample["epochs"]]
        return median(np.asarray([after - before for before, after in pairwise(ends)]))

    return [
        Row(way, "training time", "s", _of(rounds, seconds)),
        Row(way, "with its start", "s", _of(rounds, lambda each: each["end"] - each["submitted"])),
        Row(way, "an epoch, median", "s", _of(rounds, epoch)),
        Row(way, "CPU time of all pods", "s", _of(rounds, lambda each: each["cpu_seconds"])),
        Row(way, "accuracy", "%", _of(rounds, lambda each: 100 * each["accuracy"])),
    ]


def _gain(samples: Samples) -> list[Row]:
    one, two = (
        median(np.asarray([seconds(each) for each in samples[way]]))
        for way in ("static-1", "static-2")
    )
    grown = samples["grows"]

    def part(sample: Mapping[str, Any]) -> float:
        """Return the share of the steps that one worker alone did."""
        return float((sample["uncordoned"] - sample["begin"]) / one)

    def share(sample: Mapping[str, Any], since: str = "uncordoned") -> float:
        """Return the share of the gain that two workers from a moment on would have."""
        alone = (sample[since] - sample["begin"]) / one
        ideal = alone * one + (1 - alone) * two
        return float(100 * (one - seconds(sample)) / (one - ideal))

    same = len({w for way in GROWTH for each in samples[way] for w in each["weights"]})
    return [
        Row("grows", "of the ideal gain", "%", _of(grown, share), _GAIN),
        Row(
            "grows",
            "of the gain from when the second worker trains",
            "%",
            _of(grown, lambda each: share(each, "joined")),
        ),
        Row(
            "grows",
            "from room to the second worker training",
            "s",
            _of(grown, lambda each: each["joined"] - each["uncordoned"]),
        ),
        Row("grows", "steps done when there was room", "%", _of(grown, lambda e: 100 * part(e))),
        Row("grows", "ideal gain: two workers against one", "ratio", once(one / two)),
        Row("grows", "different weights in the end, of all three", "", once(same), Target(1.0)),
    ]


def _vertical(rounds: Sequence[Sequence[float]]) -> list[Row]:
    if not rounds:
        return []
    count = sum(map(len, rounds))
    said = (("median", median, None), ("99th percentile", percentile_99, _SETTLED))
    longest = (("the longest", highest, None),)
    return [
        Row(VERTICAL, f"{count} changes, {label}", "seconds", estimate(rounds, statistic), target)
        for label, statistic, target in said + longest
    ]


def _deaths(measure: str, rounds: Sequence[Sequence[Mapping[str, float]]]) -> list[Row]:
    made = []
    for kind, title in _KINDS.items():
        found = [[each for each in one if each["kind"] == kind] for one in rounds]
        count = sum(map(len, found))
        if not count:
            continue

        def since(
            what: str, begin: str | None, found: list[list[Mapping[str, float]]] = found
        ) -> list[list[float]]:
            return [[e[what] - (e[begin] if begin else 0.0) for e in one] for one in found]

        # Others are told by their connections, or by silence; of the coordinator, by the cluster.
        begin = "not_ready" if kind == "coordinator" else None
        what = "NotReady" if begin else "the death"
        to_generation = since("generation", begin)
        for label, statistic, target in (
            ("median", median, None),
            ("the longest", highest, _REACTION),
        ):
            made.append(
                Row(
                    measure,
                    f"{count} {title}: from {what} to a generation, {label}",
                    "seconds",
                    estimate(to_generation, statistic),
                    target,
                )
            )
        made += [
            Row(
                measure,
                f"{count} {title}: from NotReady to a new worker's pod, the longest",
                "seconds",
                estimate(since("replaced", "not_ready"), highest),
                _REACTION,
            ),
            Row(
                measure,
                f"{count} {title}: from the death to two workers, median",
                "seconds",
                estimate(since("whole", None)),
            ),
        ]
    return made


def makespan(sample: Mapping[str, Any]) -> float:
    """Return how long all jobs took, from the first one's creation."""
    jobs = sample["jobs"].values()
    return float(max(e["end"] for e in jobs) - min(e["submitted"] for e in jobs))


def core_share(sample: Mapping[str, Any]) -> float:
    """Return the share of both cores' time that pods have used until the last job's end."""
    return float(100 * sample["cpu_seconds"] / (CORES * makespan(sample)))


def _jobs(way: str, rounds: Sequence[Any]) -> list[Row]:
    if not rounds:
        return []

    def turnaround(sample: Mapping[str, Any]) -> float:
        # All of them are there from the first one's creation on, whenever a way starts them.
        jobs = sample["jobs"].values()
        begin = min(each["submitted"] for each in jobs)
        return float(sum(each["end"] - begin for each in jobs) / len(jobs))

    return [
        Row(way, "makespan", "s", _of(rounds, makespan)),
        Row(way, "mean turnaround", "s", _of(rounds, turnaround)),
        Row(way, "share of core time used", "%", _of(rounds, core_share)),
        Row(way, "CPU time of all pods", "s", _of(rounds, lambda each: each["cpu_seconds"])),
    ]


def _compared(samples: Samples) -> list[Row]:
    made = []
    ours = samples.get("operator", ())
    for way in ("split", "queue"):
        theirs = samples.get(way, ())
        if not (ours and theirs):
            continue
        # Who has both at once is compared with who has.
        is_held = way == "split"
        ratios = [
            [value(a) / value(b) for a in ours for b in theirs] for value in (makespan, core_share)
        ]
        for label, values, target in zip(
            ("makespan", "share of core time used"),
            ratios,
            (Target(1.0), Target(1.0, at_least=True)),
            strict=True,
        ):
            made.append(
                Row(
                    "operator",
                    f"{label}, operator / {way}",
                    "ratio",
                    estimate([values]),
                    target if is_held else None,
                )
            )
    return made


def _kills(rounds: Sequence[Mapping[str, Any]]) -> list[Row]:
    made = []
    for each in rounds:
        label = "runs in which a training was lost, weights were wrong or a pod was left over"
        remark = f"{each['kills']} kills in {each['seconds']:.0f} s"
        made.append(
            Row(KILLS, label, "", once(0.0 if each["passed"] else 1.0), Target(0.0), "", remark)
        )
    return made
