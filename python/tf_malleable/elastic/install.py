# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Installation of elastic training into Keras, as soon as the script imports it.

This module imports neither TensorFlow nor Keras: an import hook waits until the script does.
"""

from __future__ import annotations

import atexit
import random
import sys
from collections.abc import Callable
from typing import Any, Final

from tf_malleable.elastic.mesh import Mesh, StateHolder
from tf_malleable.elastic.settings import TrainingSettings
from tf_malleable.runtime.post_import_hook import after_import

# Once this module is imported, so is all of Keras that is hooked. Keras itself may be half
# imported when it imports TensorFlow, and with it tf_malleable.
_MODULE: Final = "keras.src.models.model"


def install(
    settings: TrainingSettings, make_mesh: Callable[[StateHolder], Mesh] | None = None
) -> None:
    """Make each fit() of this process part of an elastic training.

    Python's, NumPy's and TensorFlow's generators get the training's seed, so that the script
    prepares the same data in each member. Seeds that the script sets come later.

    Args:
        settings: Settings of the training, the same for all members.
        make_mesh: Returns the mesh for a state, when the first fit() begins; None for a
            training without other processes.
    """

    def set_up() -> None:
        from tf_malleable.elastic.training.training import Training

        training = Training(settings, make_mesh)
        _seed(settings.seed)
        from tf_malleable.elastic.training.hooks import Hooks

        Hooks(training)
        _finish_at_exit(training)

    after_import(_MODULE, set_up)


def _seed(seed: int | None) -> None:
    if seed is not None:
        import numpy as np
        import tensorflow as tf

        random.seed(seed)
        np.random.seed(seed)
        tf.random.set_seed(seed)


def _finish_at_exit(training: Any) -> None:
    has_failed: list[bool] = []
    own = sys.excepthook

    def note(*args: Any) -> None:
        has_failed.append(True)
        own(*args)

    def finish() -> None:
        if not has_failed:
            training.finish()

    sys.excepthook = note
    atexit.register(finish)
