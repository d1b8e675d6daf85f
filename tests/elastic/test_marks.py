# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which steps carry the fingerprint of their batch: for all members of a generation the same."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tf_malleable.elastic.mesh import Rescaled, Turn

pytestmark = pytest.mark.slow


class Step:
    """Notes with which marks parts are computed."""

    def __init__(self):
        self.marks = []

    def parts(self, data, start, stop, mark):
        self.marks.append(mark)
        return {}

    def has_mark(self, total, mark):
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


def test_a_step_that_had_begun_in_the_generation_before_is_marked_too():
    import tensorflow as tf

    from tf_malleable.elastic.training.fit import Fit
    from tf_malleable.elastic.training.step import fingerprint

    fit, step, data = Fit.__new__(Fit), Step(), tf.constant([1.0, 2.0])
    fit._step, fit._generation, fit._epoch = step, 1, 0
    fit._training = SimpleNamespace(mesh=Mesh(Turn(5, 2, 0, 2)), step=5, is_lead=False)
    assert fit._sum(Turn(5, 1, 0, 1), data, 0) == "sum"
    assert fit._sum(Turn(6, 2, 0, 2), data, 0) == "sum"
    assert step.marks == [0, fingerprint(data), 0]
