# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Agents report once a second, and nothing is known of a job before they did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tf_malleable.model import Allocation, Job, Machine, Shape
from tf_malleable.policies import registry
from tf_malleable.simulate.engine.curves import LINEAR
from tf_malleable.simulate.engine.progress_reports import Reports
from tf_malleable.simulate.engine.simulation import Scenario, simulate
from tf_malleable.simulate.engine.task import Task

SEEDS = range(10)


def test_reports_are_a_second_apart():
    reports = Reports(7.25)
    assert [reports.until(now) for now in (7.25, 8.0, 8.25, 100.3)] == [7.25, 7.25, 8.25, 100.25]
    assert [reports.since(now) for now in (7.0, 7.25, 7.3, 100.0)] == [7.25, 7.25, 8.25, 100.25]


class Watching:
    """Shares out equally, decides four times a second, and notes when each speed is known."""

    def __init__(self) -> None:
        self.known_at: dict[int, float] = {}

    def allocate(self, jobs: Sequence[Job], machine: Machine, now: float) -> Allocation:
        for rate in jobs[0].rates if jobs else ():
            self.known_at.setdefault(rate.cores, now)
        decision = registry.create("equal").allocate(jobs, machine, now)
        return replace(decision, review_at=now + 0.25 if jobs else None)


def known_at(seed: int) -> dict[int, float]:
    """Return when speeds of a job are known, by its cores: 4 at first, 2 from 20.5 s on."""
    watching = Watching()
    tasks = [
        Task("watched", 0.0, 200.0, LINEAR, Shape(1, 4, 4), steps=2000.0),
        Task("other", 20.5, 200.0, LINEAR, Shape(1, 4, 4), steps=2000.0),
    ]
    simulate(tasks, watching, Scenario((Machine.flat(4),), seed=seed))
    return watching.known_at


@pytest.mark.parametrize("seed", SEEDS)
def test_a_speed_is_known_from_the_second_report_after_it_has_settled(seed):
    known = known_at(seed)
    # It settles for a second; the next report comes up to a second later, and one more after it.
    assert 22.5 <= known[2] <= 23.51


def test_each_seed_has_its_own_times():
    assert len({round(known_at(seed)[2], 1) for seed in SEEDS}) > 3
