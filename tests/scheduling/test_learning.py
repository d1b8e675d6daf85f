# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whose jobs are learned from."""

from __future__ import annotations

from dataclasses import replace

from tests.support.records import live
from tf_malleable.model import Rate
from tf_malleable.scheduling.learning import Knowledge, Lessons, is_same_program

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


def test_the_same_program_is_one_of_the_same_user():
    job = live(1, uid=1000)
    assert is_same_program(job, live(2, uid=1000, command=("python", "train.py", "--more")))
    assert not is_same_program(job, replace(job, uid=1001))
    assert not is_same_program(job, replace(job, name="other"))
