# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Budgets as OpenADR 3 events: a limit of the power drawn, for an interval. Pure.

The payload type is IMPORT_CAPACITY_LIMIT, in kW. A mean budget has another payload of a private
type, the seconds of its window, as OpenADR allows. A serial number in the id identifies the
newest event.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tf_malleable.api.validation import decode_json
from tf_malleable.model import Budget

LIMIT: Final = "IMPORT_CAPACITY_LIMIT"
WINDOW: Final = "TFM_MEAN_WINDOW_SECONDS"
FOR_EVER: Final = "P9999Y"
PROGRAM: Final = "tf_malleable"

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_LONGEST: Final = 16384


class EventError(ValueError):
    """The message is not an event that limits power; the error is one sentence."""


class Payload(msgspec.Struct, frozen=True):
    """Values of one type."""

    type: Annotated[str, Meta(max_length=128)]
    values: Annotated[list[float], Meta(min_length=1, max_length=8)]


class Interval(msgspec.Struct, frozen=True):
    """Payloads of an interval."""

    id: int
    payloads: Annotated[list[Payload], Meta(max_length=8)]


class IntervalPeriod(msgspec.Struct, frozen=True):
    """Start (as of RFC 3339) and duration (as of ISO 8601) of an interval."""

    start: datetime
    duration: str = FOR_EVER


class PayloadDescriptor(msgspec.Struct, frozen=True, rename="camel"):
    """Unit of the values of a payload type."""

    payload_type: str
    units: str
    object_type: str = "EVENT_PAYLOAD_DESCRIPTOR"


class Target(msgspec.Struct, frozen=True):
    """Recipients of an event."""

    type: str
    values: list[str]


class DemandEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenADR 3 event with one interval."""

    id: Annotated[str, Meta(pattern=r"^\d{1,18}$(?!\n)")]
    objectType: str = "EVENT"  # noqa: N815
    programID: str = PROGRAM  # noqa: N815
    eventName: str | None = None  # noqa: N815
    targets: list[Target] = []
    payloadDescriptors: list[PayloadDescriptor] = []  # noqa: N815
    intervalPeriod: IntervalPeriod  # noqa: N815
    intervals: Annotated[list[Interval], Meta(min_length=1, max_length=1)]


_KILOWATTS = [PayloadDescriptor(LIMIT, "KW")]


def event_of(budget: Budget, unit: str, now: float) -> bytes:
    """Return a budget as an event for a unit, from `now` on, a Unix time in seconds."""
    payloads = [Payload(LIMIT, [budget.watts / 1000])]
    if budget.window is not None:
        payloads.append(Payload(WINDOW, [budget.window]))
    duration = FOR_EVER if budget.until is None else f"PT{budget.until - now:.3f}S"
    start = datetime.fromtimestamp(now, timezone.utc)
    return msgspec.json.encode(
        DemandEvent(
            id=str(budget.serial),
            targets=[Target("RESOURCE_NAME", [unit])],
            payloadDescriptors=_KILOWATTS,
            intervalPeriod=IntervalPeriod(start, duration),
            intervals=[Interval(0, payloads)],
        )
    )


def budget_of(message: bytes) -> Budget:
    """Return the budget of an event.

    Raises:
        EventError: The message is not such an event.
    """
    if len(message) > _LONGEST:
        raise EventError(f"an event has at most {_LONGEST} bytes, not {len(message)}")
    try:
        event = decode_json(message, DemandEvent)
        values = {payload.type: payload.values[0] for payload in event.intervals[0].payloads}
        if LIMIT not in values:
            raise EventError(f"the event has no payload {LIMIT}")
        window = values.get(WINDOW)
        return Budget(
            values[LIMIT] * 1000 * _unit(event),
            "peak" if window is None else "mean",
            window,
            _until(event.intervalPeriod),
            int(event.id),
        )
    except EventError:
        raise
    except (ValueError, OverflowError) as error:
        raise EventError(f"this is no event that limits power: {error}") from None


def _unit(event: DemandEvent) -> float:
    for descriptor in event.payloadDescriptors:
        if descriptor.payload_type == LIMIT and descriptor.units != "KW":
            raise EventError(f"a limit must be in KW, not {descriptor.units[:20]!r}")
    return 1.0


def _until(period: IntervalPeriod) -> float | None:
    if period.start.tzinfo is None:
        raise EventError("the start of an event needs a time zone")
    if period.duration == FOR_EVER:
        return None
    found = _DURATION.fullmatch(period.duration)
    if found is None or not any(found.groups()):
        raise EventError(
            f"a duration is written such as PT8H, or {FOR_EVER}, not {period.duration[:30]!r}"
        )
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    length = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    return (period.start + length).timestamp()
