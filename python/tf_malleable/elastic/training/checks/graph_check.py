# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Check of a traced train step for ops that cannot be kept exact."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from tf_malleable.elastic.training.checks.errors import RefusedError

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


def check(function: Any, model: str) -> None:
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
    print(f"tf_malleable: elastic training: {complaint}", file=sys.stderr)


def _operations(function: Any) -> Iterator[tuple[str, str]]:
    graph = function.graph.as_graph_def()
    for node in graph.node:
        yield node.name, node.op
    for inner in graph.library.function:
        for node in inner.node_def:
            yield node.name, node.op
