# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tf.data's autotuning does not hold up members, unless the script wants it.

Run by test_with_tensorflow.py.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TFEpochIterator

from tf_malleable.elastic.settings import TrainingSettings
from tf_malleable.elastic.training.data.input_pipeline import prompt
from tf_malleable.elastic.training.hooks import Hooks
from tf_malleable.elastic.training.training import Training

X, Y = np.ones((8, 2), "f4"), np.ones((8, 1), "f4")


def autotunes(dataset):
    return dataset.options().autotune.enabled


def pipeline(enabled=None):
    dataset = tf.data.Dataset.range(50).map(lambda x: x + 1, num_parallel_calls=tf.data.AUTOTUNE)
    if enabled is None:
        return dataset
    options = tf.data.Options()
    options.autotune.enabled = enabled
    options.deterministic = True
    return dataset.with_options(options)


def test_it_is_off_and_the_examples_are_the_same():
    dataset = prompt(pipeline())
    assert autotunes(dataset) is False
    assert [*dataset.as_numpy_iterator()] == [*range(1, 51)]


@pytest.mark.parametrize("enabled", [True, False])
def test_what_the_script_says_holds(enabled):
    dataset = pipeline(enabled)
    assert prompt(dataset) is dataset


def test_other_options_are_kept():
    options = tf.data.Options()
    options.autotune.ram_budget = 1 << 20
    found = prompt(pipeline().with_options(options)).options()
    assert (found.autotune.enabled, found.autotune.ram_budget) == (False, 1 << 20)


def test_what_is_no_dataset_is_left_alone():
    assert prompt("distributed") == "distributed"


@pytest.fixture
def datasets(monkeypatch):
    """Return the datasets that Keras draws from."""
    found = []
    original = TFEpochIterator._get_iterator

    def get_iterator(epochs):
        found.append(epochs._distributed_dataset)
        return original(epochs)

    monkeypatch.setattr(TFEpochIterator, "_get_iterator", get_iterator)
    return found


def test_fit_and_its_validation_do_not_autotune_but_evaluate_does(datasets):
    # For good: this process ends with these tests, and no other one of them trains.
    Hooks(Training(TrainingSettings(shards=2)))
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(X, Y, batch_size=4, validation_data=(X, Y), verbose=0)
    assert {autotunes(each) for each in datasets} == {False}
    assert len({id(each) for each in datasets}) == 2
    datasets.clear()
    model.evaluate(X, Y, verbose=0)
    assert {autotunes(each) for each in datasets} == {None}
