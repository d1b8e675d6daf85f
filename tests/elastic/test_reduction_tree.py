# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whoever computes which shards, the sum has the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.elastic.allreduce.reduction_tree import (
    Node,
    children,
    combine,
    cover,
    sums_of_run,
)


def all_at_once(node, values):
    """The sum by definition."""
    if node.stop - node.start == 1:
        return values[node.start]
    left, right = children(node)
    return all_at_once(left, values) + all_at_once(right, values)


@st.composite
def splits(draw):
    """A number of shards, and where the runs of some members end."""
    shards = draw(st.integers(1, 70))
    return shards, sorted(draw(st.lists(st.integers(0, shards), max_size=8)))


@given(splits(), st.integers(0, 2**32 - 1))
def test_any_split_gives_the_bits_of_one_member(split, seed):
    shards, ends = split
    random = np.random.default_rng(seed)
    values = (random.standard_normal((shards, 3)) * 10.0 ** random.integers(-6, 6)).astype("f4")
    parts = {}
    for start, stop in zip([0, *ends], [*ends, shards], strict=True):
        sums = sums_of_run(shards, start, values[start:stop], np.add)
        assert tuple(sums) == cover(shards, start, stop)
        parts |= sums
    total = combine(shards, parts, np.add)
    assert total.tobytes() == all_at_once(Node(0, shards), values).tobytes()


@given(splits())
def test_a_run_is_covered_once_by_few_nodes(split):
    shards, ends = split
    start, stop = (ends[0], ends[-1]) if ends else (0, shards)
    nodes = cover(shards, start, stop)
    assert [shard for node in nodes for shard in range(*node)] == list(range(start, stop))
    assert len(nodes) <= 2 * shards.bit_length()


def test_the_left_child_has_the_largest_power_of_two():
    assert children(Node(0, 6)) == (Node(0, 4), Node(4, 6))
    assert children(Node(0, 8)) == (Node(0, 4), Node(4, 8))
    assert children(Node(4, 6)) == (Node(4, 5), Node(5, 6))


def test_the_order_is_not_from_left_to_right():
    values = [np.float32(each) for each in (1e8, 1.0, -1e8, 1.0)]
    parts = {Node(each, each + 1): value for each, value in enumerate(values)}
    assert combine(4, parts, np.add) == np.float32(1e8 + 1) + np.float32(-1e8 + 1)


def test_what_is_missing_is_refused():
    with pytest.raises(ValueError, match="shard 1 is missing"):
        combine(2, {Node(0, 1): 1}, int.__add__)
    with pytest.raises(ValueError, match="are not a run of 4 shards"):
        sums_of_run(4, 3, [1, 1], int.__add__)
    with pytest.raises(ValueError, match="are not a run of 4 shards"):
        cover(4, 3, 5)
