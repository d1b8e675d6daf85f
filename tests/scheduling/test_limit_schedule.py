# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Limits inside time windows depend on the record and the time alone."""

from __future__ import annotations

from dataclasses import replace
from zoneinfo import ZoneInfo

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.support.records import WAITING
from tf_malleable.model.schedules.local_time import is_open
from tf_malleable.model.schedules.time_window import TimeWindow
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.limit_schedule import (
    WindowLimits,
    outside_of_windows,
    scheduled,
)

BERLIN = ZoneInfo("Europe/Berlin")
LIMITS = st.builds(
    WindowLimits,
    st.builds(
        TimeWindow,
        st.integers(0, 700),
        st.integers(701, 1440),
        st.sets(st.integers(0, 6), min_size=1).map(lambda days: tuple(sorted(days))),
    ),
    cores=st.none() | st.integers(1, 4),
    max=st.none() | st.integers(1, 4),
    priority=st.none() | st.integers(-9, 9),
)
RECORDS = st.builds(
    lambda limits, by_hand: replace(WAITING, schedule=tuple(limits), by_hand=by_hand),
    st.lists(LIMITS, max_size=4),
    st.none() | st.integers(1, 4),
)
# A week with a change of clocks, in seconds.
TIMES = st.integers(1_774_600_000, 1_775_200_000)


@given(RECORDS, st.lists(TIMES), TIMES)
def test_whatever_the_clock_showed_before_does_not_matter(record, before, now):
    went = record
    for time in before:
        went = scheduled(went, time, BERLIN)
    assert scheduled(went, now, BERLIN) == scheduled(record, now, BERLIN)
    assert outside_of_windows(went) == record


@given(RECORDS, TIMES)
def test_the_last_open_window_that_says_something_counts(record, now):
    found = scheduled(record, now, BERLIN)
    holding = [each for each in record.schedule if is_open(each.window, now, BERLIN)]
    assert (found.usual_limits is None) is (not holding)
    for name, limit, usual in (
        ("by_hand", "cores", record.by_hand),
        ("priority", "priority", record.priority),
    ):
        said = [getattr(each, limit) for each in holding if getattr(each, limit) is not None]
        assert getattr(found, name) == (said[-1] if said else usual)
    most = [each.max for each in holding if each.max is not None]
    assert found.shape.max == (most[-1] if most else record.shape.max)
    assert found.shape.min == record.shape.min


@given(RECORDS, TIMES)
def test_a_state_file_keeps_all_of_it(record, now):
    found = scheduled(record, now, BERLIN)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Record) == found
