# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a training says of a checkpoint that is not its own. Run by test_with_tensorflow.py."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from tf_malleable.elastic.mesh import Alone
from tf_malleable.elastic.settings import TrainingSettings
from tf_malleable.elastic.training import last_resort_checkpoint, state
from tf_malleable.elastic.training.checks import RefusedError
from tf_malleable.elastic.training.position import Description, Place
from tf_malleable.elastic.training.training import Training

FILE = "/kept/step-000000000009.checkpoint"


class Variable:
    """One that is not there."""

    def __init__(self, *shape):
        self.shape, self.dtype = shape, "float32"


class StandIn:
    """A fit() at some place."""

    number, callbacks, unagreed = 0, (), {}

    def __init__(self, position, *variables):
        self.position, self._variables = position, list(variables)

    def variables(self):
        return self._variables


def restored(fit):
    training = Training(TrainingSettings(2), lambda _: Restored(2))
    assert training.mesh.shards == 2
    training.fit = fit
    return training


class Restored(Alone):
    """A mesh with a state from a file."""

    restored_from = FILE


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ([Variable(3, 4)], "it has 2 variables where this one has 1"),
        (
            [Variable(3, 4), Variable(5)],
            r"its variable 1 is float32\[4\] where this one's is float32\[5\]",
        ),
    ],
)
def test_that_of_another_model_is_refused(variables, sentence):
    said = Description(9, Place(0, 1, False, 2), 0, 1, shapes=("float32[3, 4]", "float32[4]"))
    training = restored(StandIn(said.position, *variables))
    with pytest.raises(RefusedError, match=f"{FILE} is of another model: {sentence}"):
        training.load(said.as_bytes(), [])


def test_that_of_another_script_is_refused():
    said = Description(9, Place(0, 1, False, 2), 0, 1, shapes=("float32[1]",))
    training = restored(StandIn(Place(0, 2, False, 0), Variable(1)))
    training.load(said.as_bytes(), [memoryview(bytes(4))])
    with pytest.raises(RefusedError, match=f"{FILE} is the state at .*; is it the same script"):
        training.arrive(training.fit)


def test_what_is_being_written_stays_as_it_is_while_steps_change_the_variables():
    layers = [keras.layers.Dense(64), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)]
    model = keras.Sequential([keras.layers.Input((8,)), *layers])
    model.compile("adam", "mse", metrics=["mae"])
    x, y = np.ones((16, 8), "f4"), np.ones((16, 64), "f4")
    model.fit(x, y, verbose=0)
    variables = state.variables(model, ())
    held = state.arrays(variables)
    buffers = [state.as_bytes(array) for array in held]
    were = [bytes(each) for each in buffers]
    for _ in range(3):
        model.fit(x, y, epochs=2, batch_size=4, verbose=0)
    assert [bytes(each) for each in buffers] == were
    are = [bytes(state.as_bytes(array)) for array in state.arrays(variables)]
    changed = sum(one != other for one, other in zip(were, are, strict=True))
    assert changed > len(were) / 2


def test_the_last_one_says_what_is_kept():
    said = last_resort_checkpoint.save((), Place(0, 2, False, 7), FILE)
    assert said == f"no worker is left: {FILE} has the state of epoch 3, batch 7"
    said = last_resort_checkpoint.save((), Place(0, 2, True, 0), FILE)
    assert said == f"no worker is left: {FILE} has the state of epoch 3, its end"
