# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Metrics of jobs that have ended, and of all of them together."""

from __future__ import annotations

import math
import os
import pwd
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.records import MEASURED, WAITING, live
from tf_malleable.api.schema.history import JobRecord
from tf_malleable.api.schema.messages import Speed
from tf_malleable.linux.processes.users import user_name
from tf_malleable.model import NO_GRANT, Grant, Rate
from tf_malleable.scheduling.records import time_accounts
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.lessons import Learned, blend, command_key
from tf_malleable.scheduling.records.metrics import Measurements, ended, summary

# Clocks tell microseconds at best.
seconds = st.integers(0, 10**12).map(lambda count: count / 1e6)
speeds = st.floats(1e-6, 1e6)


def end(record: Record, at: float, outcome="finished", cpu_seconds=None) -> JobRecord:
    return ended(record, at, outcome, None, Measurements(cpu_seconds), user="somebody")


def lived(arrival: float, stretches: list[tuple[float, int]], after: float) -> JobRecord:
    """Return the metrics of a job that had so many cores after so many seconds each."""
    now = arrival
    record = replace(WAITING, submitted=arrival, entered=arrival, since=arrival)
    for length, cores in stretches:
        now += length
        grant = Grant(frozenset(range(cores))) if cores else NO_GRANT
        record = time_accounts.granted(record, grant, now)
    return end(record, now + after)


def test_a_life_of_a_job():
    # Arrives at 100, waits 10, 4 cores for 20, paused for 5, 1 core for 7, 2 cores for 3.
    job = lived(100.0, [(10, 4), (20, 0), (5, 1), (7, 2)], 3)
    assert (job.submitted, job.started, job.ended) == (100.0, 110.0, 145.0)
    assert job.waiting_seconds == 10
    assert job.service_seconds == 30
    assert job.paused_seconds == 5
    assert job.total_seconds == 45
    assert job.core_seconds == 4 * 20 + 1 * 7 + 2 * 3
    assert job.resizes == 1


def test_what_is_passed_on():
    measured = replace(MEASURED, peak_mem=4 << 30)
    job = ended(live(5, expected=90.0), 2000.0, "failed", 137, measured, user="somebody")
    assert (job.id, job.name, job.command) == ("5", "train.py", ["python", "train.py"])
    assert (job.outcome, job.exit_code, job.cpu_seconds, job.steps) == ("failed", 137, 12.5, 100.0)
    assert (job.min, job.preferred, job.max, job.priority, job.weight) == (1, 2, 4, 3, 1.5)
    assert (job.expected, job.speeds, job.steps_total) == (90.0, [Speed(2, 2.0)], 100.0)
    assert (job.first_step_seconds, job.first_idle_seconds) == (1.5, 1.0)
    assert job.last_step_seconds == 0.5
    assert (job.idle_seconds, job.idle_phases, job.peak_mem) == (3.0, 2, 4 << 30)


def test_what_nobody_has_measured_is_null():
    job = ended(live(5), 2000.0, "unknown", None, user="somebody")
    assert (job.cpu_seconds, job.steps, job.peak_mem) == (None, None, None)
    assert (job.speeds, job.steps_total) == (None, None)
    assert (job.first_step_seconds, job.last_step_seconds) == (None, None)
    assert (job.idle_seconds, job.idle_phases) == (None, None)
    assert job.preferred == 2


def test_users_have_names_if_they_have_them():
    assert user_name(os.geteuid()) == pwd.getpwuid(os.geteuid()).pw_name
    assert user_name(3_999_999_999) == "3999999999"


def test_a_job_that_never_ran():
    job = end(WAITING, 1007.0, "cancelled")
    assert (job.started, job.waiting_seconds, job.total_seconds) == (None, 7.0, 7.0)
    assert job.service_seconds == job.paused_seconds == job.core_seconds == 0


def test_a_clock_that_went_back_takes_nothing_away():
    job = end(live(0), 500.0)
    assert job.ended == live(0).since
    assert (job.waiting_seconds, job.service_seconds, job.total_seconds) == (1.0, 1.0, 2.0)


@given(
    seconds,
    st.lists(st.tuples(seconds, st.integers(0, 8)), max_size=12),
    seconds,
)
def test_every_second_is_waiting_service_or_paused(arrival, stretches, after):
    job = lived(arrival, stretches, after)
    parts = (job.waiting_seconds, job.service_seconds, job.paused_seconds)
    assert all(part >= 0 for part in parts)
    assert sum(parts) == pytest.approx(job.total_seconds)
    assert job.total_seconds == pytest.approx(job.ended - job.submitted, abs=1e-6)
    assert job.core_seconds <= 8 * job.service_seconds + 1e-6
    assert job.core_seconds >= job.service_seconds - 1e-6
    assert (job.started is None) == (all(cores == 0 for _, cores in stretches))
    if job.started is not None:
        assert job.waiting_seconds == pytest.approx(job.started - job.submitted, abs=1e-6)
    else:
        assert job.waiting_seconds == job.total_seconds
    assert 0 <= job.resizes <= max(0, len(stretches) - 1)


def test_a_run_of_two_jobs():
    first = end(replace(WAITING, since=1000.0), 1004.0, cpu_seconds=None)
    second = ended(
        live(0, since=1002.0, grant=Grant(frozenset({0}))),
        1010.0,
        "failed",
        1,
        Measurements(12.0),
        user="somebody",
    )
    # The first never ran; the second waited 1 s and ran 9 s.
    result = summary([second, first], 2)
    assert (result.jobs, result.failures) == (2, 1)
    assert result.makespan == 10.0
    assert result.mean_turnaround == (4.0 + 10.0) / 2
    assert result.mean_waiting == (4.0 + 1.0) / 2
    assert result.mean_slowdown == 1  # 10 s divided by 10 s: of 9 s it says little.
    assert result.throughput == 0.2
    assert result.utilization == pytest.approx(12 / 20)


def test_a_job_that_fails_at_once_does_not_decide_the_slowdown():
    """The bounded slowdown of Feitelson and Rudolph, 1998, with 10 s."""
    at_once = lived(100.0, [(60, 2)], 0.01)
    long = lived(100.0, [(30, 2)], 90)
    assert summary([at_once], 2).mean_slowdown == pytest.approx(60.01 / 10)
    assert summary([long], 2).mean_slowdown == pytest.approx(120 / 90)


def test_what_cannot_be_said_is_none():
    nothing = summary([], 2)
    assert (nothing.jobs, nothing.failures) == (0, 0)
    assert nothing.makespan is nothing.mean_turnaround is nothing.mean_waiting is None
    assert nothing.mean_slowdown is nothing.throughput is nothing.utilization is None
    at_once = summary([end(WAITING, 1000.0)], 2)
    assert (at_once.makespan, at_once.mean_turnaround) == (0.0, 0.0)
    assert at_once.mean_slowdown is at_once.throughput is at_once.utilization is None
    assert summary([end(live(0), 1010.0)], 2).utilization is None
    assert summary([end(live(0), 1010.0, cpu_seconds=3.0)], 0).utilization is None


@given(
    st.lists(
        st.builds(
            lived,
            seconds,
            st.lists(st.tuples(seconds, st.integers(0, 8)), max_size=4),
            seconds,
        ),
        min_size=1,
    )
)
def test_a_run_is_bounded_by_its_jobs(jobs):
    result = summary(jobs, 8)
    longest = max(job.total_seconds for job in jobs)
    assert result.makespan is not None
    assert result.makespan >= longest - 1e-6
    assert min(job.total_seconds for job in jobs) - 1e-6 <= result.mean_turnaround <= longest + 1e-6
    assert result.mean_waiting <= result.mean_turnaround + 1e-6
    if result.mean_slowdown is not None:
        assert result.mean_slowdown >= 1
    if result.throughput is not None:
        assert result.throughput * result.makespan == pytest.approx(len(jobs))
    assert summary(list(reversed(jobs)), 8).makespan == result.makespan


@given(st.lists(speeds, min_size=1, max_size=30))
def test_a_learned_speed_is_a_mean_that_leans_to_the_newest(runs):
    known: tuple[Learned, ...] = ()
    for run in runs:
        known = blend(known, [Rate(4, run)])
    weights = [0.7**age for age in reversed(range(len(runs)))]
    mean = math.fsum(w * r for w, r in zip(weights, runs, strict=True)) / math.fsum(weights)
    (only,) = known
    assert only.cores == 4
    assert only.steps_per_second == pytest.approx(mean)
    assert min(runs) <= only.steps_per_second * (1 + 1e-9)
    assert only.steps_per_second <= max(runs) * (1 + 1e-9)
    assert 1 <= only.weight < 1 / 0.3 + 1e-9


@given(st.lists(st.tuples(st.integers(1, 4), st.floats()), max_size=20))
def test_only_positive_finite_speeds_are_learned(runs):
    known = blend((), [Rate(*run) for run in runs])
    usable = {cores for cores, speed in runs if 0 < speed < math.inf}
    assert [each.cores for each in known] == sorted(usable)
    assert all(0 < each.steps_per_second < math.inf for each in known)


def test_a_command_is_its_user_its_name_and_every_argument():
    commands = [
        (0, "job", ["python", "train.py"]),
        (1, "job", ["python", "train.py"]),
        (0, "other", ["python", "train.py"]),
        (0, "job", ["python train.py"]),
        (0, "job", ["python", "train.py", ""]),
        (0, "job", []),
    ]
    assert len({command_key(*command) for command in commands}) == len(commands)
    assert command_key(0, "job", ("python", "train.py")) == command_key(*commands[0])
