# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Time windows in local time, as functions of the time and the time zone alone.

A window is open while the clock on the wall shows a time in it. So when clocks are put back, the
hour that comes twice is in it twice; and a clock that jumps leaves nothing behind.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo

from tf_malleable.model.schedules.time_window import DAYS, TimeWindow, clock_text

# The same window is open again after a week; with clocks put forward, one may be left out.
_DAYS_AHEAD = 15


def is_open(window: TimeWindow, time: float, zone: tzinfo | None = None) -> bool:
    """Return whether a window is open.

    Args:
        window: The window.
        time: Unix time in seconds.
        zone: Time zone; None for that of this host.
    """
    local = datetime.fromtimestamp(time, zone)
    minute, day = 60 * local.hour + local.minute, local.weekday()
    if window.begin < window.end:
        return day in window.days and window.begin <= minute < window.end
    is_since_today = day in window.days and minute >= window.begin
    is_since_yesterday = (day - 1) % 7 in window.days and minute < window.end
    return is_since_today or is_since_yesterday


def next_opening(window: TimeWindow, time: float, zone: tzinfo | None = None) -> float | None:
    """Return the first time from now on at which a window is open; None for none in two weeks.

    Args:
        window: The window.
        time: Unix time in seconds.
        zone: Time zone; None for that of this host.
    """
    if is_open(window, time, zone):
        return time
    today = datetime.fromtimestamp(time, zone).replace(
        hour=0, minute=0, second=0, microsecond=0, tzinfo=zone
    )
    candidates = []
    midnight = time
    for ahead in range(_DAYS_AHEAD):
        day = today + timedelta(days=ahead)
        begin = day.replace(hour=window.begin // 60, minute=window.begin % 60)
        # When clocks are put back, a time comes twice.
        candidates += [begin.replace(fold=fold).timestamp() for fold in (0, 1)]
        next_midnight = (day + timedelta(days=1)).timestamp()
        candidates += _changes_of_clocks(midnight, next_midnight, zone)
        midnight = next_midnight
    openings = (at for at in candidates if at > time and is_open(window, at, zone))
    return min(openings, default=None)


def _changes_of_clocks(begin: float, end: float, zone: tzinfo | None) -> list[float]:
    """Return the time, if any, between two times at which clocks are put forward or back."""
    if _offset(begin, zone) == _offset(end, zone):
        return []
    low, high = int(begin), int(end) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(middle, zone) == _offset(begin, zone):
            low = middle
        else:
            high = middle
    return [float(high)]


def _offset(time: float, zone: tzinfo | None) -> timedelta:
    local = datetime.fromtimestamp(int(time), zone).replace(tzinfo=None)
    return local - datetime.fromtimestamp(int(time), timezone.utc).replace(tzinfo=None)


def opening_text(window: TimeWindow, time: float, zone: tzinfo | None = None) -> str:
    """Return when a window opens, for people: ``"22:00"``, or ``"mon 22:00"`` after a day or more.

    Args:
        window: The window.
        time: Unix time in seconds.
        zone: Time zone; None for that of this host.
    """
    at = next_opening(window, time, zone)
    if at is None:
        return clock_text(window.begin)
    local = datetime.fromtimestamp(at, zone)
    day = "" if at < time + 86400 else f"{DAYS[local.weekday()]} "
    return f"{day}{local:%H:%M}"
