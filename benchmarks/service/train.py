# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A Keras training without end."""

import keras
import numpy as np
import tensorflow as tf

layers = keras.layers
model = keras.Sequential(
    [
        keras.Input((64, 64, 3)),
        layers.Conv2D(32, 3, activation="relu"),
        layers.Conv2D(32, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(10),
    ]
)
model.compile("sgd", "mse")
batch = np.zeros((32, 64, 64, 3), "f4"), np.zeros((32, 10), "f4")
# Not in epochs: between two of them, Keras leaves cores idle.
data = tf.data.Dataset.from_tensors(batch).repeat()
model.fit(data, steps_per_epoch=10**6, verbose=0)
