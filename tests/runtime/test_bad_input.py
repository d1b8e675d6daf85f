# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Every refusal says what was given and what is allowed, and changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tf_malleable as tfm
from tf_malleable.runtime import _native

MOST = _native.get_threads().intra_max

not_a_count = st.one_of(
    st.integers(max_value=0),
    st.floats(),
    st.text(max_size=5),
    st.booleans(),
    st.binary(max_size=3),
    st.just([1]),
)


def state() -> tuple[int, ...]:
    now = _native.get_threads()
    return (now.intra, now.inter, now.intra_set, now.inter_set)


@given(value=not_a_count)
def test_a_limit_that_is_no_count_is_refused(value):
    before = state()
    for call in (
        lambda: tfm.set_threads(value),
        lambda: tfm.set_threads(intra=value),
        lambda: tfm.set_threads(inter=value),
        lambda: tfm.set_threads(intra=1, inter=value),
        lambda: tfm.threads(value),
    ):
        with pytest.raises(ValueError, match="an integer from 1, not ") as caught:
            call()
        assert repr(value) in str(caught.value)
    assert state() == before


@given(value=st.integers(min_value=MOST))
def test_a_limit_above_the_capacity_is_the_capacity(value):
    try:
        assert tfm.set_threads(1) == tfm.Threads(intra=1, inter=1)
        assert tfm.set_threads(value) == tfm.Threads(intra=MOST, inter=MOST)
        assert tfm.get_threads() == tfm.Threads(intra=MOST, inter=MOST)
        assert tfm.set_threads(intra=1, inter=value) == tfm.Threads(intra=1, inter=MOST)
        with tfm.threads(intra=value) as now:
            assert now == tfm.Threads(intra=MOST, inter=MOST)
    finally:
        _native.set_threads(_native.UNSET, _native.UNSET)


@given(value=st.integers())
def test_the_c_abi_refuses_what_is_out_of_range(value):
    before = state()
    wanted = max(min(value, 2**31 - 1), -(2**31))
    allowed = wanted in (_native.KEEP, _native.UNSET) or 1 <= wanted <= MOST
    code = _native.set_threads(wanted, wanted)
    if allowed:
        assert code in (_native.SUCCESS, _native.NO_CHANGE)
        _native.set_threads(_native.UNSET, _native.UNSET)
    else:
        assert code == _native.ERR_RANGE
        assert state() == before


def test_numpy_integers_are_integers():
    try:
        tfm.set_threads(np.int64(1))
        assert tfm.get_threads() == tfm.Threads(intra=1, inter=1)
    finally:
        _native.set_threads(_native.UNSET, _native.UNSET)


def test_set_threads_needs_one_way_of_saying_it():
    with pytest.raises(ValueError, match="give a number of threads"):
        tfm.set_threads()
    with pytest.raises(ValueError, match="not both"):
        tfm.set_threads(1, intra=1)


def test_limits_of_a_context_are_restored_even_when_it_raises():
    assert state()[2:] == (0, 0)

    @tfm.threads(intra=1)
    def fail():
        assert tfm.get_threads() == tfm.Threads(intra=1, inter=None)
        with tfm.threads(inter=1):
            assert tfm.get_threads() == tfm.Threads(intra=1, inter=1)
        assert tfm.get_threads() == tfm.Threads(intra=1, inter=None)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert state()[2:] == (0, 0)


def test_threads_is_a_decorator_that_can_recurse():
    @tfm.threads(1)
    def count_down(n):
        assert tfm.get_threads().intra == 1
        return n if n == 0 else count_down(n - 1)

    assert count_down(3) == 0
    assert state()[2:] == (0, 0)


def test_a_pool_that_is_not_there():
    with pytest.raises(ValueError, match=r"there is no pool 12345; live pools: none"):
        tfm.set_pool_threads(12345, 1)


@pytest.mark.parametrize("timeout", [-1, float("nan"), "soon", None])
def test_a_timeout_that_is_no_time(timeout):
    with pytest.raises(ValueError, match="timeout must be a number of seconds from 0"):
        tfm.wait_settled(timeout)


def test_nothing_to_wait_for_is_settled():
    assert tfm.wait_settled(0) is True
