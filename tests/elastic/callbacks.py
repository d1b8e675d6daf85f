# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trains with callbacks that write files: callbacks.py FOLDER FAIL CHECKPOINT OUT.

It fails at the beginning of an epoch, -1 for none. With CHECKPOINT, not "-", it goes on from
that of an epoch, as scripts do by themselves.
"""

import sys
import types
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf


def write(name, data, step=None, **_):
    tf.summary.write(name, tf.cast(data, tf.float32), step)


# In place of TensorBoard's package, which need not be here.
for name in ("tensorboard", "tensorboard.summary", "tensorboard.summary.v2"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["tensorboard.summary.v2"].scalar = write
folder, fail_at, checkpoint, out = Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
random = np.random.default_rng(0)
x = random.random((160, 8), "f4")
y = (x.sum(1, keepdims=True) > 4).astype("f4")


class Fail(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == fail_at:
            raise SystemExit(9)


class Note(keras.callbacks.Callback):
    """Notes what it was told, in memory."""

    def __init__(self):
        super().__init__()
        self.told = []

    def on_epoch_end(self, epoch, logs=None):
        self.told.append([epoch, *logs.values()])


first = 0
if checkpoint == "-":
    model = keras.Sequential(
        [
            keras.layers.Input((8,)),
            keras.layers.Dense(16, "relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(1, "sigmoid"),
        ]
    )
    model.compile(keras.optimizers.Adam(0.05), "binary_crossentropy", metrics=["accuracy"])
else:
    model, first = keras.models.load_model(folder / f"{checkpoint}.keras"), int(checkpoint)
note = Note()
model.fit(
    x,
    y,
    batch_size=32,
    epochs=6,
    initial_epoch=first,
    verbose=0,
    validation_split=0.25,
    callbacks=[
        keras.callbacks.BackupAndRestore(folder / "backup"),
        keras.callbacks.CSVLogger(folder / "log.csv"),
        keras.callbacks.TensorBoard(folder / "board", write_graph=False),
        keras.callbacks.ModelCheckpoint(folder / "{epoch}.keras"),
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.8),
        note,
        Fail(),
    ],
)
model.save(folder / "end.keras")
values = [*model.variables, *model.optimizer.variables]
np.savez(out, **{f"{n} {v.path}": v.numpy() for n, v in enumerate(values)}, told=note.told)
