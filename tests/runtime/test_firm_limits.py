# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A firm Override keeps its limit; the other one goes on to follow what is set meanwhile."""

from __future__ import annotations

from tf_malleable.runtime import _native, limits

KEEP = _native.KEEP


def test_what_the_program_sets_applies_when_it_ends(pools):
    firm = limits.Override(1, KEEP, is_firm=True)
    assert pools.now == [1, 4]
    limits.set_threads(2)
    assert pools.now == [1, 2]
    with limits.threads(3):
        assert pools.now == [1, 3]
    assert pools.now == [1, 2]
    firm.end()
    assert pools.now == [2, 2]


def test_the_other_limit_follows_the_cgroup(pools):
    times = limits.times_set_by_hand()
    firm = limits.Override(1, KEEP, is_firm=True)
    assert limits.set_unless_by_hand(6, times)
    assert pools.now == [1, 6]
    firm.end()
    assert pools.now == [6, 6]


def test_one_that_is_not_firm_suspends_following(pools):
    times = limits.times_set_by_hand()
    with limits.threads(2):
        assert limits.set_unless_by_hand(6, times)
        assert pools.now == [2, 2]
    assert pools.now == [6, 6]


def test_within_another_one(pools):
    with limits.threads(3):
        firm = limits.Override(1, KEEP, is_firm=True)
        limits.set_threads(2)
        assert pools.now == [1, 2]
        firm.end()
        assert pools.now == [2, 2]
    assert pools.now == [2, 2]
