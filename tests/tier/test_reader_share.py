# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Shares: how long readers wait that have taken more than their part, or send little at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.tier.readers.reader_share import MessagePace, Share


def test_a_burst_is_free():
    share = Share(rate=0.5, burst=0.1)
    assert share.spend(0.06, 100.0) == 0
    assert share.spend(0.04, 100.0) == 0
    assert share.spend(0.01, 100.0) == pytest.approx(0.02)


def test_what_was_overdrawn_is_waited_for():
    share = Share(rate=0.5, burst=0.1)
    pause = share.spend(1.1, 100.0)
    assert pause == pytest.approx(2.0)
    assert share.spend(0.0, 101.0) == pytest.approx(1.0)
    assert share.spend(0.0, 102.001) == 0


def test_a_rest_gives_no_more_than_a_burst():
    share = Share(rate=0.5, burst=0.1)
    share.spend(0.1, 100.0)
    assert share.spend(0.2, 1000.0) == pytest.approx(0.2)


@given(
    works=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 10)), min_size=1, max_size=50),
)
def test_who_waits_as_told_never_has_more_than_a_share(works):
    share, now, done, last = Share(0.25, 0.5), 0.0, 0.0, 0.0
    for work, idle in works:
        last = work
        done += work
        now += share.spend(work, now) + idle
    assert done - last <= 0.5 + 0.25 * now + 1e-6


@given(per_second=st.floats(400, 700))
def test_a_steady_reader_is_heard_with_as_many_messages_as_wanted(per_second):
    pace, heard = MessagePace(16, 0.02, 0.05), 1.0
    for _ in range(10):
        heard = per_second * pace.pause_after(round(heard))
    assert heard == pytest.approx(16, abs=2)


def test_neither_silence_nor_a_flood_takes_a_pause_out_of_its_bounds():
    pace = MessagePace(16, 0.02, 0.05)
    assert [pace.pause_after(0) for _ in range(5)][-1] == 0.05
    assert [pace.pause_after(64) for _ in range(5)][-1] == 0.02
