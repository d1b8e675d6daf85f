# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""That the default is about as good as the best of the others, whatever the workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.support.virtual_time import Outcome, Work, makespan, mean_turnaround, simulate
from tests.support.workload_corpus import CORPUS, SIZES
from tf_malleable.model import Machine, Shape
from tf_malleable.policies.lend import DWELL_SECONDS
from tf_malleable.policies.registry import DEFAULT, create

# Workloads in which a lower mean turnaround costs makespan: of jobs that do not use all cores
# well, running the shortest first with all of them ends that one sooner and all later.
CONTRADICTIONS = {
    *(("alike", cores) for cores in SIZES),
    *(("ragged", cores) for cores in SIZES),
    *(("long_beside_short", cores) for cores in (16, 64, 256)),
    *(("one_core_jobs", cores) for cores in (4, 8)),
}
# The default may be so much worse than the best of the others for a workload.
TOLERANCE = 1.02
OTHERS = ("equal", "fcfs-strict", "fcfs-max-prop", "srpt", "static split")


def run(how: str, works: Sequence[Work], cores: int) -> dict[str, Outcome]:
    if how == "static split":
        works, how = split(works, cores), "fcfs-strict"
    return simulate(create(how), works, Machine.flat(cores))


def measured(outcomes: dict[str, Outcome]) -> tuple[float, float]:
    """Return makespan and mean turnaround, in seconds."""
    return makespan(outcomes), mean_turnaround(outcomes)


def split(works: Sequence[Work], cores: int) -> list[Work]:
    """Return the jobs as if each had its part of the machine and no more."""
    part = max(1, cores // len(works))
    return [replace(work, shape=exactly(min(part, work.shape.max))) for work in works]


def exactly(cores: int) -> Shape:
    return Shape(cores, cores, cores)


@pytest.mark.slow
@pytest.mark.parametrize("cores", SIZES)
@pytest.mark.parametrize("workload", CORPUS)
def test_the_default_is_within_two_percent_of_the_best(workload, cores):
    works = CORPUS[workload](cores)
    spans, turnarounds = measured(run(DEFAULT, works, cores))
    others = {how: measured(run(how, works, cores)) for how in OTHERS}
    best_span = min(span for span, _ in others.values())
    best_turnaround = min(turnaround for _, turnaround in others.values())
    if spans <= TOLERANCE * best_span and turnarounds <= TOLERANCE * best_turnaround:
        return
    # Where the two contradict each other, nobody is the best in both. Then none of the others
    # has a better product, and it gives up a little of one for much of the other.
    best_product = min(span * turnaround for span, turnaround in others.values())
    assert spans * turnarounds <= TOLERANCE * best_product, f"{spans}, {turnarounds}; {others}"
    assert (workload, cores) in CONTRADICTIONS


@pytest.mark.slow
@pytest.mark.parametrize("cores", [2, 4])
@pytest.mark.parametrize("nap", [0.5, 2.0])
def test_naps_resize_no_job_all_the_time(cores, nap):
    works = [
        Work(str(n), 0.1 * n, 60.0, 0.1, Shape(1, cores, cores), idle=nap, busy=nap)
        for n in range(3)
    ]
    for outcome in run(DEFAULT, works, cores).values():
        ran = outcome.ended - outcome.started
        # It lends or grows once in that time and gives back or gets back once; and some
        # resizes are due to arrivals and ends.
        assert outcome.resizes <= 2 * ran / DWELL_SECONDS + 8
