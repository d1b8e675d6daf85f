# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a member says of its state, and which buffers it sums into."""

from __future__ import annotations

import numpy as np
import pytest

from tf_malleable.elastic.member.held_state import HeldState
from tf_malleable.elastic.membership.recovery_point import Position


class Holder:
    def __init__(self):
        self.loaded = None

    def load(self, description, buffers):
        self.loaded = description, buffers


@pytest.fixture
def state():
    found = HeldState(Holder())
    found.lineage, found.step = "a", 5
    return found


def commit(state, step):
    vector = state.room(10, "float32")
    vector[:] = step
    state.commit(step, vector)
    return vector


def test_the_last_sum_is_kept_while_the_next_one_arrives(state):
    first = commit(state, 5)
    second = commit(state, 6)
    assert second is not first
    assert state.sum_of(6) is second
    assert state.sum_of(5) is None
    # Two buffers are enough, however many steps there are.
    assert state.room(10, "float32") is first
    other = state.room(20, "float64")
    assert (len(other), other.dtype) == (20, np.float64)
    assert (second == 6).all()


def test_a_sum_counts_only_if_it_has_led_to_the_state(state):
    assert state.position() == Position("a", 5, has_sum=False)
    commit(state, 5)
    assert state.position() == Position("a", 6, has_sum=True)
    state.commit(6, None)  # Without other processes there is nobody to give it to.
    assert state.position() == Position("a", 7, has_sum=False)


def test_a_state_is_ones_own_once_the_training_has_taken_it_over(state):
    assert state.is_own
    state.load(b"description", [])
    assert not state.is_own
    state.taken_over()
    assert state.is_own
    state.lineage = ""
    assert not state.is_own
