# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Input pipelines: an end of epoch without delay, and a batch to warm up with."""

from __future__ import annotations

from typing import Any, Final

import tensorflow as tf
from keras.src import tree

# Number of examples of a batch of zeros whose size is unknown.
_EXAMPLES: Final = 32


def prompt(dataset: Any) -> Any:
    """Return a dataset whose iterators end at once.

    With tf.data's autotuning, the end of an iterator, and so of an epoch, takes 0.6 seconds now
    and then, and 28 have been seen, also with stock Keras; all members of a training wait for
    that one. Without autotuning, a stage with AUTOTUNE runs in as many calls as there are
    threads, in the same order.

    Args:
        dataset: Dataset of a fit() or its validation.

    Returns:
        A dataset of the same examples. It is the given one if its options say whether to
        autotune, or if it is not TensorFlow's own.
    """
    if not isinstance(dataset, tf.data.Dataset):
        return dataset
    if dataset.options().autotune.enabled is not None:
        return dataset
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def zeros(spec: Any, examples: int | None) -> Any:
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

    def filled(leaf: Any) -> Any:
        if leaf is None:
            return None
        return tf.zeros([leaf.shape[0] or examples or _EXAMPLES, *leaf.shape[1:]], leaf.dtype)

    return tree.map_structure(filled, spec)
