# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""When a job is expected to have cores, from the policy's own decisions in virtual time."""

from __future__ import annotations

import itertools
import math

import pytest

from tf_malleable.model import Allocation, Grant, Job, Machine, Rate, Shape
from tf_malleable.policies import registry
from tf_malleable.scheduling.decision.decision import Candidate, decide
from tf_malleable.scheduling.decision.outlook import ExpectedStart, expected_start

BOTH = Grant(frozenset({0, 1}))
NOW = 1000.0


def job(name, arrived, **fields):
    return Job(name, Shape(2, 2, 2), arrived, **fields)


def running(name, **fields):
    known = {"state": "running", "grant": BOTH, "started": 900.0, "since": 900.0}
    return job(name, 900.0, **{**known, **fields})


def by_policy(candidates, at):
    return decide(registry.create("fcfs-strict"), candidates, Machine.flat(2), at)


def foreseen(jobs, name, decision=by_policy, decisions=1000, barred=()):
    """Return when a job is expected to start."""
    left = itertools.chain(itertools.repeat(True, decisions), itertools.repeat(False))
    candidates = [Candidate(each, None, each.id in barred) for each in jobs]
    return expected_start(decision, candidates, name, NOW, may_go_on=lambda: next(left))


def test_a_job_starts_when_those_before_it_are_expected_to_end():
    first = running("first", run_seconds=40.0, expected_seconds=100.0)
    second = job("second", 910.0, expected_seconds=30.0)
    third = job("third", 920.0)
    jobs = [first, second, third]
    assert foreseen(jobs, "second") == ExpectedStart(NOW + 60.0, False)
    assert foreseen(jobs, "third") == ExpectedStart(NOW + 90.0, False)


def test_a_job_that_fits_starts_now():
    assert foreseen([job("only", 910.0)], "only") == ExpectedStart(NOW, False)


def test_a_run_time_that_is_not_known_makes_it_a_guess():
    jobs = [running("first", run_seconds=40.0), job("second", 910.0)]
    assert foreseen(jobs, "second") == ExpectedStart(NOW + 40.0, True)


def test_a_guess_does_not_grow_from_one_decision_to_the_next():
    def in_turns(candidates, at):
        name = candidates[0].job.id
        return Allocation({name: BOTH}, at + 1.0)

    jobs = [running("first", run_seconds=40.0), job("second", 910.0)]
    found = foreseen(jobs, "second", in_turns)
    assert found.at == pytest.approx(NOW + 40.0)
    assert found.guessed


def test_steps_count_where_they_are_known():
    first = running(
        "first", run_seconds=40.0, steps_done=60.0, steps_total=100.0, rates=(Rate(2, 4.0),)
    )
    found = foreseen([first, job("second", 910.0)], "second")
    assert found.at == pytest.approx(NOW + 10.0)
    assert not found.guessed


def test_what_cannot_be_foreseen_is_not():
    jobs = [running("first", run_seconds=40.0), job("second", 910.0)]
    assert foreseen(jobs, "second", barred={"second"}).at is None
    assert foreseen(jobs, "second", decisions=0) == ExpectedStart(None, True)


def test_no_decision_is_asked_for_twice_at_a_time():
    times = []

    def noting(candidates, at):
        times.append(at)
        return by_policy(candidates, at)

    jobs = [running("first", expected_seconds=math.pi), job("second", 910.0)]
    foreseen(jobs, "second", noting)
    assert times == [NOW, NOW + math.pi]
