# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trainings of workloads, and what becomes of them."""

from __future__ import annotations

import pytest

from benchmarks.common import runs
from benchmarks.common.trainings import Training, lasting
from benchmarks.many.workloads import WORKLOADS
from tf_malleable.workload.metrics import Finished


def test_a_training_lasts_as_long_as_asked_for():
    assert lasting(0, 9.4, 0.0) == Training("cnn", 1000, 64)
    assert lasting(4, 8.2, 1.234) == Training("dense", 1000, 1024, 1.23)
    assert lasting(8, 0.68, 2.0) == Training("rnn", 100, 32, 2.0)


def test_trainings_that_arrive_at_random_are_of_each_program_in_turn():
    trainings = WORKLOADS["b"].trainings
    assert [each.program for each in trainings] == ["cnn", "dense", "rnn"] * 4
    assert [each.arrival for each in trainings] == sorted(each.arrival for each in trainings)
    assert min(each.steps for each in trainings) > 50


@pytest.mark.parametrize(
    ("exit_code", "printed", "steps", "failed"),
    [
        (0, "10 steps\n40 steps\n", 40, False),
        (0, "10 steps\nKilled\n", 10, True),
        (1, "40 steps\nError\n", 40, True),
        (0, "nothing\n", None, True),
    ],
)
def test_what_a_training_wrote_last_is_kept_if_it_failed(
    tmp_path, exit_code, printed, steps, failed
):
    log = tmp_path / "log"
    log.write_text(printed)
    training = Training("cnn", 40, 64, 2.0)
    finished = Finished(training.planned, None, "me", 102.5, 110.0, exit_code, 6.0, log)
    outcome = runs._outcome(finished, training, begin=100.0)
    assert (outcome.started, outcome.ended, outcome.steps) == (2.5, 10.0, steps)
    assert outcome.failed is failed
    assert outcome.last_words == (printed if failed else "")
