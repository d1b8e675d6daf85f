# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Part of a traced function: some of its results, without computing the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def import_part(function: Any, outputs: Sequence[Any], arguments: Any) -> list[Any]:
    """Add to the current graph what some outputs of a traced function depend on.

    What the function does beside them is left out, as are its checks.

    Args:
        function: A concrete function.
        outputs: Some of its `outputs`.
        arguments: Nested tensors with which it would be called.

    Returns:
        The outputs' values.
    """
    part = _ancestors(function.graph.as_graph_def(), [output.op.name for output in outputs])
    flat = tf.nest.flatten(arguments, expand_composites=True)
    values = [value for value in flat if value is not None] + [*function.captured_inputs]
    kept = {node.name for node in part.node}
    inputs = {
        inner.name: tf.identity(value)
        for inner, value in zip(function.inputs, values, strict=True)
        if inner.op.name in kept
    }
    elements = [output.name for output in outputs]
    found: list[Any] = tf.graph_util.import_graph_def(part, inputs, elements)
    return found


def _ancestors(whole: Any, names: Sequence[str]) -> Any:
    """Return a graph with the named nodes and all that their values depend on."""
    nodes = {node.name: node for node in whole.node}
    kept: dict[str, list[str]] = {}
    rest = [*names]
    while rest:
        name = rest.pop()
        if name not in kept:
            kept[name] = [each for each in nodes[name].input if not each.startswith("^")]
            rest += [each.partition(":")[0] for each in kept[name]]
    part = type(whole)(versions=whole.versions, library=whole.library)
    for name, inputs in kept.items():
        node = part.node.add()
        node.CopyFrom(nodes[name])
        del node.input[:]
        node.input.extend(inputs)
    return part
