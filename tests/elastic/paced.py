# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trains a small CNN as far as a file allows: paced.py FOLDER EPOCHS.

Knows nothing of tf_malleable. Before each batch it waits until FOLDER/quota, a number of
batches, allows it, so that who watches decides what happens when. Each process writes
FOLDER/PID.npz at the end: its weights, its history, and the batches that it trained on.
"""

import os
import sys
import time
from pathlib import Path

import keras
import numpy as np

layers = keras.layers
folder, epochs = Path(sys.argv[1]), int(sys.argv[2])
EXAMPLES, BATCH = 160, 16
STEPS = EXAMPLES // BATCH

random = np.random.default_rng(0)
x = random.random((EXAMPLES, 12, 12, 1), "f4")
y = random.integers(0, 4, EXAMPLES)


class Pace(keras.callbacks.Callback):
    """Waits for the quota; notes what this process was told."""

    def __init__(self):
        super().__init__()
        self.epoch, self.batches, self.epochs = 0, [], []

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        number = self.epoch * STEPS + batch
        while number >= int((folder / "quota").read_text()):
            time.sleep(0.02)

    def on_train_batch_end(self, batch, logs=None):
        self.batches.append(self.epoch * STEPS + batch)

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(epoch)


model = keras.Sequential(
    [
        layers.Input((12, 12, 1)),
        layers.RandomTranslation(0.1, 0.1),
        layers.Conv2D(8, 3, use_bias=False),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dropout(0.3),
        layers.Dense(4),
    ]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, metrics=["accuracy"])
pace = Pace()
files = folder / "files"
history = model.fit(
    x,
    y,
    batch_size=BATCH,
    epochs=epochs,
    verbose=0,
    validation_data=(x[:32], y[:32]),
    callbacks=[
        pace,
        keras.callbacks.BackupAndRestore(files / "backup"),
        keras.callbacks.ReduceLROnPlateau("val_loss", patience=1),
        keras.callbacks.CSVLogger(files / "log.csv"),
        keras.callbacks.ModelCheckpoint(files / "{epoch}.keras"),
    ],
)
model.save(files / "end.keras")
values = [*model.variables, *model.optimizer.variables]
arrays = {f"{number} {v.path}": v.numpy() for number, v in enumerate(values)}
logs = {f"log {name}": value for name, value in history.history.items()}
noted = {"batches": pace.batches, "epochs": pace.epochs}
np.savez(folder / f"{os.getpid()}.npz", **arrays, **logs, **noted)
