# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Rescale history in a job's status: changes of workers and of their CPUs. Pure.

The coordinator remembers when workers joined and left, but not how many CPUs they had; the
previous status has these. So the CPUs are recorded when a change is first reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tf_malleable.cluster.job_spec import seconds_of, time_of
from tf_malleable.elastic.membership.rescale_ledger import Rescale

RESIZED: Final = "resize"
"""Reason of a change of CPUs alone, which needs no pause."""
_MOST: Final = 20
# Workers are resized one after the other; resizes within this time are one change.
_TOGETHER_SECONDS: Final = 3.0

Change = dict[str, Any]


def recount(
    told: Sequence[Rescale], before: Mapping[str, Any], actual: Mapping[str, Any], now: float
) -> list[Change]:
    """Return the last changes, oldest first.

    Args:
        told: Rescales that the coordinator remembers; empty if it does not answer.
        before: Previous status.
        actual: Current numbers of workers and CPUs, in the status's format.
        now: Current time, in seconds since the epoch.
    """
    known: list[Change] = [dict(one) for one in before.get("rescales") or ()]
    was = before.get("actual") or {"workers": 0, "cpus": 0}
    heard = False
    made = known
    if told:
        named = {_name(one): one for one in known}
        made = [one for one in known if one.get("reason") == RESIZED]
        for each in told[-_MOST:]:
            one = _change(each)
            if _name(one) in named:
                old = named[_name(one)]
                one |= {"from": dict(old["from"]), "to": dict(old["to"])}
                if each is told[-1] and "cpus" not in one["to"]:
                    _complete(one["to"], actual)
            else:
                heard = True
                _complete(one["from"], was)
                _complete(one["to"], actual)
            made.append(one)
    made.sort(key=lambda one: str(one["at"]))
    if not heard and was.get("workers") == actual["workers"] != 0:
        _note_resize(made, was, actual, now)
    return made[-_MOST:]


def _name(one: Mapping[str, Any]) -> tuple[object, ...]:
    sizes = (one[which].get("workers") for which in ("from", "to"))
    return one["at"], one.get("reason"), *sizes


def _change(each: Rescale) -> Change:
    one: Change = {
        "at": time_of(each.at),
        "from": {"workers": each.workers_from},
        "to": {"workers": each.workers_to},
        "reason": each.reason,
    }
    if each.pause_seconds is not None:
        one["pauseSeconds"] = round(each.pause_seconds, 4)
    return one


def _complete(size: Change, amount: Mapping[str, Any]) -> None:
    """Add the CPUs to a size, if `amount` is for the same number of workers."""
    if size["workers"] == 0:
        size["cpus"] = 0
    elif size["workers"] == amount.get("workers") and "cpus" in amount:
        size["cpus"] = amount["cpus"]


def _note_resize(
    made: list[Change], was: Mapping[str, Any], actual: Mapping[str, Any], now: float
) -> None:
    if was.get("cpus") == actual["cpus"]:
        return
    last = made[-1] if made else {}
    if last.get("reason") == RESIZED and now < seconds_of(last["at"]) + _TOGETHER_SECONDS:
        last["to"] = dict(actual)
        return
    made.append({"at": time_of(now), "from": dict(was), "to": dict(actual), "reason": RESIZED})
