# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tries trainings that cannot be elastic: prints what is said about each, by name."""

import sys

import keras
import numpy as np
import tensorflow as tf

layers = keras.layers
x, y = np.zeros((16, 4), "f4"), np.zeros((16, 1), "f4")


def built(cls=keras.Model, layer=None, **compiled):
    inputs = layers.Input((4,))
    model = cls(inputs, (layer or layers.Dense(1))(inputs))
    model.compile(**{"optimizer": "sgd", "loss": "mse", **compiled})
    return model


class Twice(keras.Model):
    def train_step(self, data):
        super().train_step(data)
        return super().train_step(data)


class Counting(keras.Model):
    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.seen = tf.Variable(0)

    def train_step(self, data):
        self.seen.assign_add(1)
        return super().train_step(data)


class Strange(keras.Model):
    def train_step(self, data):
        return {**super().train_step(data), "all": data[0]}


class Noisy(keras.Model):
    def train_step(self, data):
        x, y = data
        return super().train_step((x + tf.random.normal(tf.shape(x)), y))


class Calling(keras.Model):
    def train_step(self, data):
        x, y = data
        x = tf.ensure_shape(tf.numpy_function(lambda value: value, [x], tf.float32), [None, 4])
        return super().train_step((x, y))


def eager():
    built(run_eagerly=True).fit(x, y, verbose=0)


def stateful():
    inputs = layers.Input(batch_shape=(16, 4, 1))
    model = keras.Model(inputs, layers.LSTM(1, stateful=True)(inputs))
    model.compile("sgd", "mse")
    model.fit(x[..., None], y, batch_size=16, verbose=0)


def doubles():
    built(layer=layers.Dense(1, dtype="float64")).fit(x, y, verbose=0)


def by_batch():
    built().train_on_batch(x, y)


def fitting(cls):
    return lambda: built(cls).fit(x, y, verbose=0)


CASES = {
    "eager": eager,
    "stateful": stateful,
    "doubles": doubles,
    "by_batch": by_batch,
    "twice": fitting(Twice),
    "counting": fitting(Counting),
    "strange": fitting(Strange),
    "noisy": fitting(Noisy),
    "calling": fitting(Calling),
}

if __name__ == "__main__":
    for name, case in CASES.items():
        try:
            case()
        except SystemExit as refused:
            print(f"{name}: {refused}")
            # It would have ended here.
            sys.modules["tests.support.elastic_member"].training().fit = None
        else:
            print(f"{name}: trained")
