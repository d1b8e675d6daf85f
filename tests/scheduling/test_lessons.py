# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whose jobs are learned from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.records import live
from tf_malleable.model import Rate
from tf_malleable.scheduling.records.lessons import Knowledge, Lessons, is_same_program, passed_on

RATES = (Rate(1, 6.0), Rate(2, 10.0))


def test_each_user_has_speeds_and_run_times_of_his_own():
    knowledge = Knowledge()
    mine, other = live(1, uid=1000), live(2, uid=1001)
    knowledge.learn(mine, RATES, finished=True)
    assert knowledge.lessons(mine) == Lessons(RATES, mine.run_seconds)
    assert knowledge.lessons(other) == Lessons()


def test_no_name_reaches_what_another_user_taught():
    knowledge = Knowledge()
    knowledge.learn(live(1, uid=1000), RATES, finished=False)
    assert knowledge.lessons(live(2, uid=0, name="1000:train.py")).rates == ()
    assert knowledge.lessons(live(3, uid=0, name="")).rates == ()


def test_the_start_of_a_program_is_learned_whatever_its_arguments():
    knowledge = Knowledge()
    mine = live(1, uid=1000)
    assert knowledge.lessons(mine).startup_seconds is None
    for start, expected in ((None, None), (10.0, 10.0), (20.0, (0.7 * 10 + 20) / 1.7)):
        knowledge.learn(mine, (), start=start, finished=False)
        other = replace(mine, command=("python", "train.py", "--more"))
        assert knowledge.lessons(other).startup_seconds == (
            None if expected is None else pytest.approx(expected)
        )
    assert knowledge.lessons(replace(mine, uid=1001)).startup_seconds is None
    lessons = passed_on(knowledge.lessons(mine), mine, other, Lessons(expected_seconds=7.0))
    assert lessons == replace(knowledge.lessons(other), expected_seconds=7.0)


def test_the_same_program_is_one_of_the_same_user():
    job = live(1, uid=1000)
    assert is_same_program(job, live(2, uid=1000, command=("python", "train.py", "--more")))
    assert not is_same_program(job, replace(job, uid=1001))
    assert not is_same_program(job, replace(job, name="other"))


def test_memory_is_learned_by_command_and_user():
    knowledge = Knowledge()
    mine = live(1, uid=1000)
    knowledge.learn(mine, RATES, 4e9, finished=True)
    assert knowledge.lessons(mine).peak_mem == 4e9
    assert knowledge.lessons(replace(mine, uid=1001)).peak_mem is None
    assert knowledge.lessons(replace(mine, command=("python", "other.py"))).peak_mem is None


def test_the_memory_expected_rises_at_once_and_falls_slowly():
    knowledge = Knowledge()
    job = live(1)
    for peak, expected in ((4e9, 4e9), (None, 4e9), (8e9, 8e9), (4e9, 6.8e9)):
        knowledge.learn(job, RATES, peak, finished=True)
        assert knowledge.lessons(job).peak_mem == pytest.approx(expected)


def test_a_failed_run_only_raises_the_memory_expected():
    knowledge = Knowledge()
    job = live(1)
    knowledge.learn(job, RATES, 4e9, finished=False)
    assert knowledge.lessons(job).peak_mem is None
    knowledge.learn(job, RATES, 4e9, finished=True)
    expected = knowledge.lessons(job).expected_seconds
    for peak in (1e9, 6e9):
        knowledge.learn(replace(job, run_seconds=0.1), RATES, peak, finished=False)
    assert knowledge.lessons(job).peak_mem == 6e9
    assert knowledge.lessons(job).expected_seconds == expected
