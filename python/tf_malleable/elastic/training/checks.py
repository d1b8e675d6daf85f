# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Checks of a model and of its traced train step: what can be trained elastically, and exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tf_malleable.linux import standard_error

_ASSIGNING: Final = ("Assign", "ResourceScatter", "ResourceApply", "ResourceSparseApply")
_PYTHON: Final = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless"})
# Kernels with a generator of their own, whose state cannot be set.
_RANDOM: Final = frozenset(
    {
        "Multinomial",
        "ParameterizedTruncatedNormal",
        "RandomGamma",
        "RandomPoisson",
        "RandomPoissonV2",
        "RandomShuffle",
        "RandomStandardNormal",
        "RandomUniform",
        "RandomUniformInt",
        "RngReadAndSkip",
        "RngSkip",
        "SampleDistortedBoundingBox",
        "SampleDistortedBoundingBoxV2",
        "StatefulRandomBinomial",
        "StatefulStandardNormalV2",
        "StatefulTruncatedNormal",
        "StatefulUniform",
        "StatefulUniformFullInt",
        "StatefulUniformInt",
        "TruncatedNormal",
    }
)

_FRONT: Final = "tf_malleable: elastic training: "


class RefusedError(SystemExit):
    """This training cannot be elastic, or cannot be kept exact.

    If it is not handled, Python prints the sentence and exits with 1, without a traceback.
    """

    def __init__(self, why: str) -> None:
        super().__init__(_FRONT + why)


def check_graph(function: Any, model: str) -> None:
    """Refuse side effects of a shard's function, and print complaints about other ops.

    Args:
        function: Traced function of a shard.
        model: Name of the model's class, for messages.

    Raises:
        RefusedError: The function changes variables on its own.
    """
    said = set()
    for name, operation in _operations(function):
        if operation.startswith(_ASSIGNING):
            raise RefusedError(
                f"elastic training needs a train step without side effects, but that of {model}"
                f" changes a variable by itself ({operation}: {name}); let the optimizer, a"
                " metric or a Keras variable do it"
            )
        if operation in _RANDOM:
            said.add(
                f"{model} draws random numbers with {operation} ({name}), so that results depend"
                " on the members; keras.random with a SeedGenerator does not"
            )
        if operation in _PYTHON:
            said.add(
                f"{model} calls Python in its train step ({operation}: {name}); results depend"
                " on the members unless that is a pure function"
            )
    for complaint in sorted(said):
        say(complaint)


def say(complaint: str) -> None:
    """Print a complaint of elastic training to stderr."""
    standard_error.say(_FRONT + complaint)


def _operations(function: Any) -> Iterator[tuple[str, str]]:
    graph = function.graph.as_graph_def()
    for node in graph.node:
        yield node.name, node.op
    for inner in graph.library.function:
        for node in inner.node_def:
            yield node.name, node.op


def check_model(model: Any) -> None:
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
