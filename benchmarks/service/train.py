# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A Keras training without end."""

import keras
import numpy as np

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
images = np.zeros((256, 64, 64, 3), "f4")
model.fit(images, np.zeros((256, 10), "f4"), batch_size=32, epochs=10**6, verbose=0)
