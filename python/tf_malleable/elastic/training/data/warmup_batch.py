# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Warm-up batch of zeros: drawing a real one would change what comes next."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from keras.src import tree

_EXAMPLES = 32


def batch(spec: Any, examples: int | None) -> Any:
    """Return a batch of zeros; None if its shape is unknown.

    Args:
        spec: Nested tf.TypeSpec of the batch.
        examples: Number of examples of real batches; None if unknown.
    """
    leaves = [leaf for leaf in tree.flatten(spec) if leaf is not None]
    if not all(isinstance(leaf, tf.TensorSpec) and leaf.dtype != tf.string for leaf in leaves):
        return None
    if not all(leaf.shape.rank and leaf.shape[1:].is_fully_defined() for leaf in leaves):
        return None

    def zeros(leaf: Any) -> Any:
        if leaf is None:
            return None
        return tf.zeros([leaf.shape[0] or examples or _EXAMPLES, *leaf.shape[1:]], leaf.dtype)

    return tree.map_structure(zeros, spec)
