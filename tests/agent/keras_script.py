# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trains with Keras and knows nothing of tf_malleable.

After each fit, and wherever a callback of its own says so, it prints a word and
waits for a line.
"""

import sys

import keras
import numpy as np
import tensorflow as tf

x = np.zeros((40, 3), "f4")
y = np.zeros((40, 1), "f4")


def stop(word):
    print(word, flush=True)
    sys.stdin.readline()


class Stop(keras.callbacks.Callback):
    """Stops once, in the middle of an epoch."""

    def __init__(self, epoch, batch, early=False):
        super().__init__()
        self.at = (epoch, batch)
        self.early = early
        self.epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == self.at:
            if self.early:
                self.model.stop_training = True
            else:
                stop("middle")


def model(steps_per_execution=1):
    made = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    made.compile(optimizer="sgd", loss="mse", steps_per_execution=steps_per_execution)
    return made


def unknown_length():
    return tf.data.Dataset.from_generator(
        lambda: iter([(x[:4], y[:4])] * 6),
        output_signature=(tf.TensorSpec((4, 3)), tf.TensorSpec((4, 1))),
    )


stop("imported")
simple = model()
simple.fit(x, y, batch_size=4, epochs=3, verbose=0, validation_split=0.5, callbacks=[Stop(1, 2)])
stop("simple")
simple.evaluate(x, y, verbose=0)
simple.predict(x, verbose=0)
model(4).fit(x, y, batch_size=4, epochs=2, verbose=0, callbacks=[Stop(0, 7)])
stop("several steps an execution")
model().fit(unknown_length(), epochs=3, verbose=0, callbacks=[Stop(0, 1), Stop(1, 1)])
stop("unknown length")
simple.fit(x, y, batch_size=4, epochs=5, verbose=0, callbacks=[Stop(1, 4, early=True)])
stop("stopped early")
simple.fit(x, y, batch_size=4, initial_epoch=2, epochs=4, verbose=0, callbacks=[Stop(3, 0)])
stop("from a later epoch")
