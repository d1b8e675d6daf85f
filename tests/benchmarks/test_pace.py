# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trainings take as long on slow machines as on fast ones."""

from __future__ import annotations

import pytest

from benchmarks.common import pace
from benchmarks.common.command_line import BenchmarkError
from benchmarks.common.pace import Pace
from benchmarks.common.trainings import Training
from examples import speed
from examples.speed import STEP_SECONDS

HALF = Pace({"cnn": 0.5, "dense": 0.25, "rnn": 1.0})


def test_only_the_steps_are_scaled():
    training = Training("cnn", 1600, 64, arrival=2.5)
    assert HALF.of([training]) == (Training("cnn", 800, 64, arrival=2.5),)


def test_what_reads_its_input_computes_like_what_has_it():
    (scaled,) = HALF.of([Training("reader", 1260, 1024, more=("--shards", "3"))])
    assert (scaled.steps, scaled.more) == (315, ("--shards", "3"))


def test_a_training_has_a_step_at_least():
    assert HALF.of([Training("dense", 1, 1024)])[0].steps == 1


def test_start_and_end_of_a_training_do_not_count(monkeypatch):
    # Twice as slow as usual, and 7 s for TensorFlow's start.
    monkeypatch.setattr(speed, "_seconds", lambda name, n, _: 7 + 2 * STEP_SECONDS[name] * n)
    monkeypatch.setattr(speed, "import_once", lambda _: None)
    said = []
    assert pace.measure(said.append).factors == dict.fromkeys(STEP_SECONDS, 0.5)
    assert said == ["Speed of this machine, to which steps are scaled: cnn 0.5, dense 0.5, rnn 0.5"]


def test_the_first_start_which_reads_from_the_disk_does_not_count(monkeypatch):
    cold = [20.0]

    def seconds(name, steps, _):
        return (cold.pop() if cold else 0.0) + 7 + STEP_SECONDS[name] * steps

    monkeypatch.setattr(speed, "_seconds", seconds)
    monkeypatch.setattr(speed, "import_once", lambda _: cold.clear())
    assert pace.measure(lambda text: None).factors == dict.fromkeys(STEP_SECONDS, 1.0)


@pytest.mark.slow
def test_a_training_that_fails_is_no_measurement(monkeypatch, tmp_path):
    monkeypatch.setattr(speed, "TRAININGS", tmp_path)
    with pytest.raises(BenchmarkError, match=r"the training cnn failed: .*cnn\.py"):
        pace.measure(lambda text: None)
