# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Scheduled limits: what a job's limits are inside time windows, and what they are outside.

A record has the limits in force, so nothing else need know of windows. While a window is open,
the limits that hold outside of all windows are kept beside them. All is a function of the record
and the time: it does not matter whether, or how often, anybody has looked before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import TYPE_CHECKING

from tf_malleable.model import Shape
from tf_malleable.model.schedules.local_time import is_open
from tf_malleable.model.schedules.time_window import TimeWindow

if TYPE_CHECKING:
    from tf_malleable.scheduling.records.job_record import Record


@dataclass(frozen=True)
class WindowLimits:
    """Limits of a job inside a time window; None leaves one as it is outside.

    Attributes:
        window: The window.
        cores: Number of cores, as if set by hand.
        max: Maximum number of cores.
        priority: Priority; higher goes first.
    """

    window: TimeWindow
    cores: int | None = None
    max: int | None = None
    priority: int | None = None


@dataclass(frozen=True)
class LimitsOutside:
    """Limits of a job outside of its time windows.

    Attributes:
        shape: Requested cores.
        priority: Priority; higher goes first.
        by_hand: Number of cores set by a person; None if the policy decides.
    """

    shape: Shape
    priority: int
    by_hand: int | None


def scheduled(record: Record, time: float, zone: tzinfo | None = None) -> Record:
    """Return a record with the limits that hold at a time. Of two windows, the later one counts.

    Args:
        record: The record.
        time: Unix time in seconds, on the clock that people see.
        zone: Time zone; None for that of this host.
    """
    usual = outside_of_windows(record)
    holding = [each for each in record.schedule if is_open(each.window, time, zone)]
    if not holding:
        return usual
    kept = LimitsOutside(usual.shape, usual.priority, usual.by_hand)
    shape, priority, by_hand = usual.shape, usual.priority, usual.by_hand
    for each in holding:
        by_hand = by_hand if each.cores is None else each.cores
        shape = shape if each.max is None else with_most(usual.shape, each.max)
        priority = priority if each.priority is None else each.priority
    found = replace(usual, shape=shape, priority=priority, by_hand=by_hand, usual_limits=kept)
    return record if found == record else found


def outside_of_windows(record: Record) -> Record:
    """Return a record with the limits that hold outside of all time windows."""
    usual = record.usual_limits
    if usual is None:
        return record
    return replace(
        record,
        shape=usual.shape,
        priority=usual.priority,
        by_hand=usual.by_hand,
        usual_limits=None,
    )


def with_most(shape: Shape, most: int) -> Shape:
    """Return a shape with another maximum, not below its minimum.

    If `preferred` was equal to `max`, it follows.
    """
    most = max(shape.min, most)
    follows = shape.preferred == shape.max
    return Shape(shape.min, most if follows else min(shape.preferred, most), most)


def is_outside(record: Record, time: float, zone: tzinfo | None = None) -> bool:
    """Return whether a job must not run at a time, as the window that it may run in is closed.

    Args:
        record: Record of the job.
        time: Unix time in seconds, on the clock that people see.
        zone: Time zone; None for that of this host.
    """
    return record.window is not None and not is_open(record.window, time, zone)
