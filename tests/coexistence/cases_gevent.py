# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trains with Keras in a process whose threads gevent has replaced by greenlets."""

import random
from typing import Any

import gevent
import numpy as np
from gevent import monkey


def fit_while_a_greenlet_changes_limits(patched: str, capacity: int) -> dict[str, Any]:
    """Train undisturbed, then disturbed; gevent patches before or after our import."""
    if patched == "before":
        monkey.patch_all()
    import tf_malleable as tfm

    if patched == "after":
        monkey.patch_all()
    import keras

    x = np.random.default_rng(1).normal(size=(256, 24, 24, 3)).astype(np.float32)

    def losses(*callbacks: keras.callbacks.Callback) -> list[float]:
        keras.utils.set_random_seed(1)
        model = keras.Sequential(
            [
                keras.layers.Conv2D(16, 3, activation="relu"),
                keras.layers.GlobalAveragePooling2D(),
                keras.layers.Dense(1),
            ]
        )
        model.compile(optimizer="sgd", loss="mse")
        history = model.fit(
            x,
            x[:, 0, 0, :1],
            batch_size=16,
            epochs=2,
            shuffle=False,
            verbose=0,
            callbacks=[*callbacks],
        )
        return history.history["loss"]

    # Without callbacks, Keras calls its own in threads: here in greenlets.
    undisturbed = losses()
    changes = 0

    def change() -> None:
        nonlocal changes
        rng = random.Random(0)
        while True:
            tfm.set_threads(intra=rng.randint(1, capacity), inter=rng.randint(1, capacity))
            changes += 1
            gevent.sleep(0)

    class Yield(keras.callbacks.Callback):
        """Lets other greenlets run after each step."""

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            gevent.sleep(0)

    changer = gevent.spawn(change)
    disturbed = losses(Yield())
    changer.kill()
    tfm.set_threads(1)
    return {
        "patched": monkey.is_module_patched("threading"),
        "undisturbed": undisturbed,
        "disturbed": disturbed,
        "changes": changes,
        "settled": tfm.wait_settled(10),
        "limits": [pool.limit for pool in tfm.pools()],
    }
