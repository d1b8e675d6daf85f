# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""From samples of a real cluster to rows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Final

from benchmarks.common.estimates import once
from benchmarks.common.rows import Row, Target
from benchmarks.real_cluster.names import (
    GROWTH,
    OPERATOR_KILLED,
    OPERATOR_LEADS,
    REFUSED,
    ROOM,
    TERM,
    WAY,
    WORKER_KILLED,
)

_NONE: Final = Target(0.0)
_PART: Final = 1 / 3


def rows(samples: Mapping[str, Any]) -> list[Row]:
    """Return all rows that the samples allow.

    Args:
        samples: What each measure has returned, by its name.
    """
    return [row for name, make in _ROWS.items() if name in samples for row in make(samples[name])]


def _room(found: Sequence[Mapping[str, float]]) -> list[Row]:
    def own(one: Mapping[str, float]) -> float:
        """Return the time that is neither the container's start nor imports."""
        return one["created"] + one["trains"] - one["registered"]

    return [
        _longest(ROOM, "to shards, beside container start and imports", map(own, found), 3.0),
        _longest(ROOM, "to the worker's pod", (one["created"] for one in found)),
        _longest(ROOM, "container start", (one["runs"] - one["created"] for one in found)),
        _longest(ROOM, "imports", (one["registered"] - one["runs"] for one in found)),
        _longest(ROOM, "all", (one["trains"] for one in found)),
    ]


def _longest(
    measure: str, label: str, values: Iterable[float], bar: float | None = None, unit: str = "s"
) -> Row:
    """Return a row of the highest value, with the median beside it."""
    every = list(values)
    target = None if bar is None else Target(bar)
    remark = f"the median of {len(every)} is {median(every):.3g}"
    return Row(measure, f"{label}, the most", unit, once(max(every)), target, remark=remark)


def _worker_killed(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    pauses = [one["pause"] for one in found if one["pause"] is not None]
    return [
        _longest(WORKER_KILLED, "to a new generation", (one["generation"] for one in found), 1.0),
        *(_longest(WORKER_KILLED, "pause", pauses, 0.8) for pauses in [pauses] if pauses),
    ]


def _term(found: Mapping[str, Any]) -> list[Row]:
    return [
        _longest(TERM, "until gone", (one["gone"] for one in found["ends"]), 5.0),
        Row(TERM, "trainings that lost something", "", once(found["lost"]), _NONE),
    ]


def _way(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    ended = sum(one["phase"] != "Running" or not one["same"] for one in found)
    return [
        _longest(WAY, "changes of spec in a round", (one["changes"] for one in found), 1.0, ""),
        Row(WAY, "pods that ended OutOfcpu, or workers replaced", "", once(ended), _NONE),
        _longest(WAY, "until the pod runs", (one["seconds"] for one in found)),
    ]


def _refused(found: Mapping[str, float]) -> list[Row]:
    rate = once(found["calls"] / found["seconds"])
    first = once(found["at_first"] / found["seconds"])
    return [
        Row(REFUSED, "calls a second, steady", "", rate, Target(2.0)),
        Row(REFUSED, "calls a second, as long before", "", first),
    ]


def _operator_killed(found: Mapping[str, Any]) -> list[Row]:
    runs = found["runs"]
    remark = f"of {len(runs)} trainings of {found['length']:.3g} s"

    def count(label: str, is_bad: Callable[[Mapping[str, Any]], bool]) -> Row:
        number = once(sum(map(is_bad, runs)))
        return Row(OPERATOR_KILLED, label, "", number, _NONE, remark=remark)

    return [
        count("ran twice", lambda one: one["twice"]),
        count("never succeeded", lambda one: not one["succeeded"]),
        count("without the log of a worker", lambda one: not one["logs"]),
    ]


def _operator_leads(found: Sequence[float]) -> list[Row]:
    return [_longest(OPERATOR_LEADS, "until one leads", found, 15.0)]


def _growth(found: Mapping[str, float]) -> list[Row]:
    one, two, grown = (found[way] for way in ("static-1", "static-2", "grows"))
    ideal = _PART * one + (1 - _PART) * two
    share = 100 * (one - grown) / (one - ideal)
    took = once(found["joined"] - found["room"])
    return [
        Row(GROWTH, "of the ideal gain", "%", once(share), Target(90.0, at_least=True)),
        *(
            Row(GROWTH, f"training time, {way}", "s", once(found[way]))
            for way in ("static-1", "static-2", "grows")
        ),
        Row(GROWTH, "from room to the second worker training", "s", took),
    ]


_ROWS: Final[Mapping[str, Callable[[Any], list[Row]]]] = {
    ROOM: _room,
    WORKER_KILLED: _worker_killed,
    TERM: _term,
    WAY: _way,
    REFUSED: _refused,
    OPERATOR_KILLED: _operator_killed,
    OPERATOR_LEADS: _operator_leads,
    GROWTH: _growth,
}
