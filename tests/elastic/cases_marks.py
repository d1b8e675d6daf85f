# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which steps carry the fingerprint of their batch: for all members of a generation the same.

Run by test_with_tensorflow.py.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tf_malleable.elastic.mesh import Rescaled, Turn
from tf_malleable.elastic.training.fit import Fit
from tf_malleable.elastic.training.step import Step as TracedStep
from tf_malleable.elastic.training.step import fingerprint


class Step:
    """Notes with which marks parts are computed."""

    def __init__(self):
        self.marks = []

    def parts(self, data, start, stop, mark):
        self.marks.append(mark)
        return {}

    def agrees(self, total, mark):
        return True


class Mesh:
    """Has other members after the first attempt to sum."""

    def __init__(self, turn):
        self.turn = turn

    def reduce(self, step, parts):
        turn, self.turn = self.turn, None
        if turn is not None:
            raise Rescaled(turn)
        return "sum"


@pytest.fixture
def fit():
    made = Fit.__new__(Fit)
    made._step, made._epoch = Step(), 0
    return made


def in_mesh(turn):
    return SimpleNamespace(mesh=Mesh(turn), step=5, is_lead=False)


def test_a_step_that_had_begun_in_the_generation_before_is_marked_too(fit):
    data = tf.constant([1.0, 2.0])
    fit._training = in_mesh(Turn(5, 2, 0, 2, is_first=True))
    assert fit._sum(Turn(5, 1, 0, 1), data, 0) == "sum"
    assert fit._sum(Turn(6, 2, 0, 2), data, 0) == "sum"
    assert fit._step.marks == [0, fingerprint(data), 0]


def test_one_that_came_late_to_a_generation_marks_the_step_that_the_others_mark(fit):
    """Its first turn brought it the sum of the step that the others had done already."""
    data = tf.constant([1.0, 2.0])
    fit._training = in_mesh(None)
    assert fit._sum(Turn(5, 2, 0, 2, is_first=True), data, 0) == "sum"
    assert fit._sum(Turn(6, 2, 0, 2, is_first=True), data, 0) == "sum"
    assert fit._step.marks == [fingerprint(data)] * 2


@pytest.mark.parametrize(
    ("tail", "agrees"), [((4 * 7, 4 * 3), True), ((0, 0), True), ((2 * 7, 2 * 3), False)]
)
def test_a_sum_is_compared_only_if_its_members_marked_it(tail, agrees):
    step = TracedStep.__new__(TracedStep)
    step._shards = 4
    assert step.agrees(np.asarray([0.5, *tail], np.float32), 3 << 16 | 7) is agrees
