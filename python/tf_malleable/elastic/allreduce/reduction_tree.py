# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reduction tree: the fixed binary tree along which the vectors of all shards are summed.

Addition of floats is not associative. So that a sum over shards does not depend on which member
computed which of them, it is always formed along one tree, which depends on the number of shards
alone. A member adds up what lies inside its run of shards; what straddles runs is added by the
owner of that slice of the vector, along the same tree.

The tree is the left-complete one of RFC 6962 (2.1): below a node of n shards, the left child has
as many of them as the largest power of two less than n. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

_Value = TypeVar("_Value")


class Node(NamedTuple):
    """A node of the tree: the sum over shards `start` … `stop` - 1."""

    start: int
    stop: int


def children(node: Node) -> tuple[Node, Node]:
    """Return the two nodes below a node of at least two shards."""
    middle = node.start + (1 << (node.stop - node.start - 1).bit_length() - 1)
    return Node(node.start, middle), Node(middle, node.stop)


def cover(shards: int, start: int, stop: int) -> tuple[Node, ...]:
    """Return the fewest nodes that together cover the shards `start` … `stop` - 1, in order.

    Args:
        shards: Number of shards in all; at least 1.
        start: First shard of the run.
        stop: First shard after the run; an empty run has no nodes.

    Raises:
        ValueError: There is no such run.
    """
    if not (shards >= 1 and 0 <= start <= stop <= shards):
        raise ValueError(f"shards {start} to {stop} are not a run of {shards} shards")
    return tuple(_inside(Node(0, shards), start, stop))


def _inside(node: Node, start: int, stop: int) -> list[Node]:
    if stop <= node.start or node.stop <= start:
        return []
    if start <= node.start and node.stop <= stop:
        return [node]
    left, right = children(node)
    return _inside(left, start, stop) + _inside(right, start, stop)


def combine(
    shards: int, parts: Mapping[Node, _Value], add: Callable[[_Value, _Value], _Value]
) -> _Value:
    """Return the sum at the root.

    Args:
        shards: Number of shards in all.
        parts: Sums at nodes that together cover each shard exactly once.
        add: Adds two neighbours, the left one first.

    Raises:
        ValueError: A shard is missing.
    """
    return combine_at(Node(0, shards), parts, add)


def combine_at(
    node: Node, parts: Mapping[Node, _Value], add: Callable[[_Value, _Value], _Value]
) -> _Value:
    """Return the sum at a node; arguments and errors as for combine()."""
    if node in parts:
        return parts[node]
    if node.stop - node.start == 1:
        raise ValueError(f"shard {node.start} is missing from the sum")
    left, right = children(node)
    return add(combine_at(left, parts, add), combine_at(right, parts, add))


def sums_of_run(
    shards: int, start: int, values: Sequence[_Value], add: Callable[[_Value, _Value], _Value]
) -> dict[Node, _Value]:
    """Return the sums at the nodes that cover a run of shards.

    Args:
        shards: Number of shards in all.
        start: First shard of the run.
        values: Value of each shard of the run.
        add: Adds two neighbours, the left one first.

    Raises:
        ValueError: There is no such run.
    """
    each = {Node(shard, shard + 1): value for shard, value in enumerate(values, start)}
    nodes = cover(shards, start, start + len(values))
    return {node: combine_at(node, each, add) for node in nodes}
