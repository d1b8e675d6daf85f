# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Policies by name, with options: ``lend+priority-strict:ageing=60,preempt=longest``.

``budget+`` before a name keeps a power budget, ``slo+`` the objectives of services, and ``lend+``
lends idle cores; in this order.

Other packages add policies as entry points of the group ``tf_malleable.policies``. The
entry point names a callable that takes the options as keyword arguments, all of them
strings, returns a Policy, and raises ValueError for an invalid option.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from tf_malleable.model.units import quoted
from tf_malleable.policies.policy import Policy
from tf_malleable.policies.queues.classic import AlwaysAttendPolicy, MaxPropPolicy, StrictPolicy
from tf_malleable.policies.queues.efficient import EfficientPolicy
from tf_malleable.policies.queues.fair import EqualPolicy, WeightedPolicy
from tf_malleable.policies.queues.orders import Fcfs, Order, Priority, RoundRobin
from tf_malleable.policies.queues.srpt import SrptPolicy
from tf_malleable.policies.wrappers.budget import BudgetPolicy
from tf_malleable.policies.wrappers.lend import LendPolicy
from tf_malleable.policies.wrappers.slo import SloPolicy

DEFAULT = "lend+srpt"
GROUP = "tf_malleable.policies"

BUDGET = "budget+"
_SLO = "slo+"
_LEND = "lend+"


def create(spec: str) -> Policy:
    """Return the policy for ``["budget+"]["slo+"]["lend+"]NAME[":"OPT"="VALUE[","OPT"="VALUE]…]``.

    Raises:
        ValueError: Unknown policy, or unknown or invalid option; the message is one sentence.
    """
    name, colon, rest = spec.partition(":")
    options = _options(rest) if colon else {}
    keeps = name.startswith(BUDGET)
    name = name.removeprefix(BUDGET)
    promises = name.startswith(_SLO)
    name = name.removeprefix(_SLO)
    lends = name.startswith(_LEND)
    policy = _create(name.removeprefix(_LEND), options)
    policy = LendPolicy(policy) if lends else policy
    policy = SloPolicy(policy) if promises else policy
    return BudgetPolicy(policy) if keeps else policy


def available() -> list[tuple[str, str]]:
    """Return the name and one-line summary of each policy, those of other packages last."""
    lend = f"srpt, and idle cores are lent; {_LEND}NAME does so with any policy"
    budget = f"{DEFAULT} within a power budget; {BUDGET}NAME does so with any policy"
    slo = f"{DEFAULT}, and services keep their objectives; {_SLO}NAME does so with any policy"
    return [
        (DEFAULT, lend),
        (BUDGET + DEFAULT, budget),
        (_SLO + DEFAULT, slo),
        *((name, builtin.summary) for name, builtin in _BUILTIN.items()),
        *((name, _summary(point)) for name, point in sorted(_entry_points().items())),
    ]


@dataclass(frozen=True)
class _Builtin:
    """A built-in policy, and the parsers of its options."""

    summary: str
    build: Callable[..., Policy]
    options: Mapping[str, Callable[[str, str], Any]] = field(default_factory=dict)


def _seconds(option: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"{option} must be a number of seconds above 0, not {quoted(text)}")
    return seconds


def _preempt(option: str, text: str) -> str:
    if text not in ("no", "longest", "smallest"):
        raise ValueError(f"{option} must be no, longest or smallest, not {quoted(text)}")
    return text


def _classic() -> dict[str, _Builtin]:
    """Return every combination of an order and a way to share."""
    orders: dict[str, tuple[str, Callable[..., Order], dict[str, Callable[[str, str], Any]]]] = {
        "fcfs": ("first come, first served", Fcfs, {}),
        "priority": (
            "highest priority first, ageing=SECONDS, preempt=no|longest|smallest",
            Priority,
            {"ageing": _seconds, "preempt": _preempt},
        ),
        "round-robin": ("in turns, quantum=SECONDS", RoundRobin, {"quantum": _seconds}),
    }
    sharings: dict[str, tuple[str, Callable[[Order], Policy]]] = {
        "strict": ("exactly the preferred cores, or wait", StrictPolicy),
        "max-prop": ("all cores in proportion to preferred", MaxPropPolicy),
        "always-attend": ("start as soon as min is free", AlwaysAttendPolicy),
    }

    def builder(
        order: Callable[..., Order], sharing: Callable[[Order], Policy]
    ) -> Callable[..., Policy]:
        return lambda **options: sharing(order(**options))

    return {
        f"{order}-{sharing}": _Builtin(f"{how_much}; {who}", builder(make_order, make), options)
        for order, (who, make_order, options) in orders.items()
        for sharing, (how_much, make) in sharings.items()
    }


_BUILTIN: dict[str, _Builtin] = {
    "equal": _Builtin("all running jobs get the same, within min … max", EqualPolicy),
    "weighted": _Builtin("shares in proportion to weight, within min … max", WeightedPolicy),
    "srpt": _Builtin("shortest remaining work first, longer jobs are paused", SrptPolicy),
    "efficient": _Builtin("cores go where they help most in proportion", EfficientPolicy),
    **_classic(),
}


def _options(text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in text.split(","):
        option, _, value = part.partition("=")
        if not option or not value:
            raise ValueError(f"options are written OPTION=VALUE,OPTION=VALUE, not {quoted(text)}")
        if option in options:
            raise ValueError(f"option {option} is given twice in {quoted(text)}")
        options[option] = value
    return options


def _create(name: str, options: Mapping[str, str]) -> Policy:
    builtin = _BUILTIN.get(name)
    if builtin is None:
        return _create_foreign(name, options)
    parsed = {}
    for option, text in options.items():
        if option not in builtin.options:
            takes = ", ".join(builtin.options) or "none"
            raise ValueError(
                f"policy {name} has no option {quoted(option)}; its options are: {takes}"
            )
        parsed[option] = builtin.options[option](option, text)
    return builtin.build(**parsed)


def _create_foreign(name: str, options: Mapping[str, str]) -> Policy:
    points = _entry_points()
    if name not in points:
        names = ", ".join([*_BUILTIN, *sorted(points)])
        raise ValueError(
            f"there is no policy {quoted(name)}; choose from {names}, each also as {_LEND}NAME"
        )
    try:
        policy: Policy = points[name].load()(**options)
    except Exception as error:
        raise ValueError(f"cannot load policy {name}: {_one_line(error)}") from error
    if not callable(getattr(policy, "allocate", None)):
        raise ValueError(f"cannot load policy {name}: it has no method allocate")
    return policy


def _entry_points() -> dict[str, EntryPoint]:
    """Return policies of other packages; they cannot replace built-in ones."""
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in _BUILTIN}


def _summary(point: EntryPoint) -> str:
    try:
        description = (point.load().__doc__ or "").strip()
    except Exception as error:
        return f"cannot load it: {_one_line(error)}"
    return description.splitlines()[0] if description else f"from {point.value}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
