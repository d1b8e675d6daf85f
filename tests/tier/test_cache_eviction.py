# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Eviction: never inside a data set, whole data sets by age, sole copies last."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.tier.store.cache_eviction import StoredCopy, to_evict

COPIES = st.lists(
    st.builds(
        StoredCopy,
        path=st.uuids().map(str),
        dataset=st.sampled_from("abc"),
        size=st.integers(1, 100),
        read_at=st.floats(0, 100),
        is_sole=st.booleans(),
    ),
    unique_by=lambda copy: copy.path,
)


def test_a_data_set_does_not_evict_its_own():
    copies = [StoredCopy(str(n), "a", 10, n) for n in range(9)]
    assert to_evict(copies, "a", 5) == ()


def test_the_data_set_not_read_for_longest_goes_first():
    copies = [
        StoredCopy("new1", "new", 10, 90.0),
        StoredCopy("new2", "new", 10, 1.0),
        StoredCopy("old1", "old", 10, 50.0),
        StoredCopy("old2", "old", 10, 40.0),
    ]
    assert to_evict(copies, "mine", 15) == ("old2", "old1")
    assert to_evict(copies, "mine", 25) == ("old2", "old1", "new2")


def test_what_nobody_else_has_goes_last_and_what_is_open_never():
    copies = [
        StoredCopy("sole", "old", 10, 1.0, is_sole=True),
        StoredCopy("open", "old", 10, 1.0),
        StoredCopy("other", "new", 10, 99.0),
    ]
    assert to_evict(copies, "mine", 5, "open".__eq__) == ("other",)
    assert to_evict(copies, "mine", 15, "open".__eq__) == ("other", "sole")
    assert to_evict(copies, "mine", 25, "open".__eq__) == ()


def test_nothing_goes_if_it_would_not_help():
    copies = [StoredCopy("x", "old", 10, 1.0)]
    assert to_evict(copies, "mine", 11) == ()
    assert to_evict(copies, "mine", 0) == ()


@given(COPIES, st.sampled_from("abcd"), st.integers(1, 500), st.integers(0))
def test_in_any_store(copies, dataset, needed, open_ones):
    by_path = {copy.path: copy for copy in copies}
    opened = {copy.path for number, copy in enumerate(copies) if open_ones >> number & 1}
    chosen = [by_path[path] for path in to_evict(copies, dataset, needed, opened.__contains__)]
    assert not any(copy.path in opened or copy.dataset == dataset for copy in chosen)
    if chosen:
        assert sum(copy.size for copy in chosen) >= needed > sum(copy.size for copy in chosen[:-1])
        if any(copy.is_sole for copy in chosen):
            kept = set(by_path.values()) - set(chosen)
            assert not any(
                copy
                for copy in kept
                if not (copy.is_sole or copy.path in opened or copy.dataset == dataset)
            )
    else:
        free = [copy for copy in copies if copy.path not in opened and copy.dataset != dataset]
        assert sum(copy.size for copy in free) < needed
