# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The one order in which the shards of a step are summed, whoever computes them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeVar


class Node(NamedTuple):
    """A node of the tree: the sum over shards start … stop - 1."""

    start: int
    stop: int


class Summand(Protocol):
    """What can be added to its like."""

    def __add__(self: _Sum, other: _Sum, /) -> _Sum: ...


_Sum = TypeVar("_Sum", bound=Summand)


def cover(shards: int, start: int, stop: int) -> tuple[Node, ...]:
    """Return the largest nodes of the tree over `shards` shards within [start, stop)."""
    return tuple(_cover(Node(0, shards), start, stop))


def combine(shards: int, parts: Mapping[Node, _Sum]) -> _Sum:
    """Return the sum at the root.

    Args:
        shards: How many there are.
        parts: Sums at nodes that together have each shard once.

    Raises:
        KeyError: A shard is missing.
    """
    return _combine(Node(0, shards), parts)


def children(node: Node) -> tuple[Node, Node]:
    """Return the two nodes below one of at least two shards."""
    middle = (node.start + node.stop + 1) // 2
    return Node(node.start, middle), Node(middle, node.stop)


def _cover(node: Node, start: int, stop: int) -> list[Node]:
    if node.stop <= start or stop <= node.start:
        return []
    if start <= node.start and node.stop <= stop:
        return [node]
    left, right = children(node)
    return _cover(left, start, stop) + _cover(right, start, stop)


def _combine(node: Node, parts: Mapping[Node, _Sum]) -> _Sum:
    if node in parts or node.stop - node.start == 1:
        return parts[node]
    left, right = children(node)
    return _combine(left, parts) + _combine(right, parts)
