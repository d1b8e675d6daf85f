# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Check whether a model can be trained elastically."""

from __future__ import annotations

from typing import Any

from tf_malleable.elastic.training.checks.errors import RefusedError


def check(model: Any) -> None:
    """Refuse a model that cannot be cut into shards.

    Raises:
        RefusedError: The model cannot be cut into shards.
    """
    if model.run_eagerly:
        raise RefusedError("compile(run_eagerly=True) cannot be traced; leave it out")
    if model._distribute_strategy is not None:
        raise RefusedError(
            "it takes the place of tf.distribute; build the model without a strategy"
        )
    if model.optimizer is None:
        raise RefusedError("compile() was given no optimizer")
    for layer in model._flatten_layers():
        if getattr(layer, "stateful", False):
            raise RefusedError(
                f"layer {layer.name!r} is stateful: it carries examples from batch to batch, which"
                " shards cannot"
            )


def check_built(model: Any) -> None:
    """Refuse weights whose gradients cannot travel as float32.

    Raises:
        RefusedError: There is such a weight.
    """
    for variable in model.trainable_variables:
        if variable.dtype not in ("float32", "float16", "bfloat16"):
            raise RefusedError(
                f"weight {variable.path} is {variable.dtype}, and sums are of float32 or narrower"
            )
