# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Serves with Keras and TensorFlow, trains in between, and knows nothing of tf_malleable.

It prints what it has done, with the number of requests that this was, and waits for a line.
"""

import sys
import tempfile
import time
from contextlib import suppress

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import concrete_function

x = np.zeros((8, 3), "f4")
y = np.zeros((8, 1), "f4")


def did(what, requests):
    print(what, requests, flush=True)
    sys.stdin.readline()


# A service that has just started is not measured for its first half second.
while not concrete_function.ConcreteFunction.__call__.__code__.co_filename.endswith(
    "serving_calls.py"
) or not keras.Model.predict.__code__.co_filename.endswith("serving_calls.py"):
    time.sleep(0.01)

model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
for _ in range(3):
    assert model.predict(x, verbose=0).shape == (8, 1)
assert model.predict_on_batch(x).shape == (8, 1)
did("predict", 4)

with suppress(tf.errors.InvalidArgumentError):
    model.predict(np.zeros((8, 5), "f4"), verbose=0)
did("failed", 1)


@tf.function
def inner(a):
    return 2 * a


@tf.function
def outer(a):
    return inner(a) + 1


for number in range(5):
    assert int(outer(tf.constant(number))) == 2 * number + 1
did("functions", 5)

with tempfile.TemporaryDirectory() as folder:
    module = tf.Module()
    module.table = tf.Variable([[1.0], [2.0]])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def look_up(index):
        return {"found": tf.gather(module.table, index)}

    module.look_up = look_up
    tf.saved_model.save(module, folder, signatures=look_up)
    loaded = tf.saved_model.load(folder)
serve = loaded.signatures["serving_default"]
for _ in range(6):
    assert float(serve(index=tf.constant([1]))["found"][0, 0]) == 2.0
assert float(loaded.look_up(tf.constant([0]))["found"][0, 0]) == 1.0
did("signatures", 7)

weight = tf.Variable(1.0)


@tf.function
def step():
    def lower(number):
        weight.assign_sub(0.1)
        return number + 1

    return tf.while_loop(lambda number: number < 2, lower, [tf.constant(0)])


for _ in range(4):
    step()
did("steps", 0)

model.compile("sgd", "mse")
model.fit(x, y, epochs=3, verbose=0, validation_data=(x, y))
model.evaluate(x, y, verbose=0)
model.train_on_batch(x, y)
did("training", 0)

model.predict(x, verbose=0)
did("predict", 1)
print("over", flush=True)
