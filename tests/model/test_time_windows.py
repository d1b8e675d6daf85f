# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Parts of the day, in local time, whatever clocks do."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.model.schedules.local_time import is_open, next_opening, opening_text
from tf_malleable.model.schedules.time_window import DAYS, TimeWindow, parse_window

BERLIN = ZoneInfo("Europe/Berlin")
UTC = ZoneInfo("UTC")
MINUTE = 60
WEEK = range(7)


def at(text: str, zone: ZoneInfo = BERLIN, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).timestamp()


@pytest.mark.parametrize(
    ("between", "days", "shown"),
    [
        ("22:00-07:00", None, "22:00-07:00"),
        ("8:30-12:00", "mon-fri", "08:30-12:00 mon-fri"),
        ("00:00-24:00", "SAT,sun", "00:00-24:00 sat-sun"),
        ("22:00-0:00", "sat-mon", "22:00-24:00 mon,sat-sun"),
        ("22:00-07:00", "mon-sun", "22:00-07:00"),
        ("22:00-07:00", "tue, thu", "22:00-07:00 tue,thu"),
    ],
)
def test_a_window_is_read_and_shown(between, days, shown):
    window = parse_window(between, days)
    assert str(window) == shown
    assert parse_window(window.between, window.days_text) == window


@pytest.mark.parametrize(
    "between",
    ["", "22:00", "22-7", "22:00-22:00", "24:00-07:00", "25:00-07:00", "22:00-24:01", "22:60-07:00",
     "22:00-07:00\n", "٢٢:00-07:00", "00:00-0:00", None, 7],
)  # fmt: skip
def test_another_text_is_refused_in_one_sentence(between):
    with pytest.raises(ValueError, match=r"^between must be two different times .*, not ") as error:
        parse_window(between)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("days", ["", "monday", "mon-", "-fri", "mon;tue", "1-5", 3])
def test_other_days_are_refused_in_one_sentence(days):
    with pytest.raises(ValueError, match=r"^days must be names such as mon-fri or sat,sun"):
        parse_window("22:00-07:00", days)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-11-27 21:59:59", False),  # A Friday.
        ("2026-11-27 22:00", True),
        ("2026-11-28 06:59:59", True),
        ("2026-11-28 07:00", False),
        ("2026-11-28 23:00", False),
        ("2026-11-30 03:00", False),
        ("2026-11-30 22:30", True),
    ],
)
def test_a_window_that_crosses_midnight_belongs_to_the_day_on_which_it_begins(time, expected):
    assert is_open(parse_window("22:00-07:00", "mon-fri"), at(time), BERLIN) is expected


def test_the_hour_that_is_left_out_in_spring():
    """On March 29, 2026, Berlin's clocks go from 02:00 to 03:00."""
    window = parse_window("02:30-03:30")
    before, after = at("2026-03-29 01:59"), at("2026-03-29 03:00")
    assert after - before == MINUTE
    assert not is_open(window, before, BERLIN)
    assert is_open(window, after, BERLIN)
    assert next_opening(window, before, BERLIN) == after
    # One that is wholly left out is not made up for.
    left_out = parse_window("02:15-02:45", "sun")
    assert next_opening(left_out, before, BERLIN) == at("2026-04-05 02:15")


def test_the_hour_that_comes_twice_in_autumn():
    """On October 25, 2026, Berlin's clocks go from 03:00 back to 02:00."""
    night = parse_window("22:00-07:00")
    hours = [at("2026-10-24 22:00") + 3600 * hour for hour in range(11)]
    assert [is_open(night, hour, BERLIN) for hour in hours] == [True] * 10 + [False]
    twice = parse_window("01:00-02:30")
    assert not is_open(twice, at("2026-10-25 02:40"), BERLIN)
    again = at("2026-10-25 02:00", fold=1)
    assert next_opening(twice, at("2026-10-25 02:40"), BERLIN) == again
    assert is_open(twice, at("2026-10-25 02:10", fold=1), BERLIN)


def test_a_clock_that_jumps_leaves_nothing_behind():
    """What is open depends on the time alone: forward, back, and years away."""
    window = parse_window("22:00-07:00")
    times = ["2026-11-27 12:00", "2026-11-27 23:00", "2026-11-27 12:00", "1999-01-01 23:00"]
    assert [is_open(window, at(time), BERLIN) for time in times] == [False, True, False, True]


def test_the_next_opening_is_told_with_its_day_if_that_is_not_within_one():
    window = parse_window("22:00-07:00", "mon-fri")
    assert opening_text(window, at("2026-11-27 12:00"), BERLIN) == "22:00"
    assert opening_text(window, at("2026-11-28 12:00"), BERLIN) == "mon 22:00"


WINDOWS = st.builds(
    lambda begin, length, days: TimeWindow(
        begin, (begin + length - 1) % 1440 + 1, tuple(sorted(days))
    ),
    st.integers(0, 1439),
    st.integers(1, 1439),
    st.sets(st.sampled_from(WEEK), min_size=1),
)
# Around changes of clocks, of an hour and, on Lord Howe Island, half an hour; and without any.
STARTS = st.sampled_from(
    [
        ("Europe/Berlin", "2026-03-27 00:00"),
        ("Europe/Berlin", "2026-10-23 00:00"),
        ("Australia/Lord_Howe", "2026-04-03 00:00"),
        ("Australia/Lord_Howe", "2026-10-02 00:00"),
        ("America/New_York", "2026-03-06 12:00"),
        ("Asia/Kolkata", "2026-06-01 00:00"),
    ]
)


@given(WINDOWS, STARTS, st.integers(0, 3 * 1440))
def test_the_next_opening_is_the_first_minute_of_all_that_is_open(window, start, later):
    zone = ZoneInfo(start[0])
    now = at(start[1], zone) + MINUTE * later
    found = next_opening(window, now, zone)
    minutes = (now + MINUTE * minute for minute in range(11 * 1440))
    assert found == next(time for time in minutes if is_open(window, time, zone))


@given(WINDOWS)
def test_every_window_is_read_as_it_is_shown(window):
    assert parse_window(window.between, window.days_text) == window
    assert all(name in DAYS for name in (window.days_text or "mon").replace("-", ",").split(","))
