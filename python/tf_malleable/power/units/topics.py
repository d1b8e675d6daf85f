# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""MQTT topics and messages of units, and access rules for them. Pure.

A topic is tfm/v1/AREA/UNIT/WORD; an area has one or more levels. One filter, such as
tfm/v1/faculty/#, therefore matches all of an area, and a broker can check access by topic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from tf_malleable.api.schema.job_names import is_area

ROOT: Final = "tfm/v1"

Word = Literal["state", "budget", "ack", "profile"]
WRITTEN_BY_UNITS: Final[tuple[Word, ...]] = ("state", "ack", "profile")

_UNIT = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True)
class UnitName:
    """A host's controller.

    Attributes:
        area: Area that the host belongs to.
        unit: Name of the unit in its area.

    Raises:
        ValueError: The area or the name is invalid.
    """

    area: str
    unit: str

    def __post_init__(self) -> None:
        if not is_area(self.area) or not _UNIT.fullmatch(self.unit):
            raise ValueError(
                f"a unit is named by letters, digits, _, . and -, not {self.area}/{self.unit}"
            )

    def topic(self, word: Word) -> str:
        """Return a topic of the unit."""
        return f"{ROOT}/{self.area}/{self.unit}/{word}"

    def __str__(self) -> str:
        return f"{self.area}/{self.unit}"


def named(topic: str) -> tuple[UnitName, str] | None:
    """Return the unit and the word of a topic; None if it is not a topic of a unit."""
    parts = topic.removeprefix(f"{ROOT}/").split("/")
    if not topic.startswith(f"{ROOT}/") or len(parts) < 3:
        return None
    try:
        return UnitName("/".join(parts[:-2]), parts[-2]), parts[-1]
    except ValueError:
        return None


def under(area: str, word: Word | None = None) -> str:
    """Return the filter of all topics in an area and its subareas."""
    return f"{ROOT}/{area}/#" if word is None else f"{ROOT}/{area}/+/{word}"


class UnitState(msgspec.Struct, frozen=True):
    """State of a unit. Retained; the broker publishes the state "dead" as the unit's will.

    Attributes:
        state: Whether the unit is alive.
        session: Identifier that differs between two processes of the same name.
        cpus: Number of CPUs of the host.
        curve: Power curve as pairs of load, 0 … 1, and watts; empty if unknown.
    """

    state: Literal["alive", "dead"]
    session: Annotated[str, Meta(max_length=64)]
    cpus: Annotated[int, Meta(ge=0, le=65536)] = 0
    curve: Annotated[list[tuple[float, float]], Meta(max_length=128)] = []


class UnitAck(msgspec.Struct, frozen=True):
    """Acknowledgement or refusal of a budget.

    Attributes:
        serial: Serial number of the budget; null if it could not be read.
        accepted: True if the budget is kept from now on.
        reason: Why it is not.
    """

    serial: int | None
    accepted: bool
    reason: str | None = None


def acl(units: Iterable[UnitName], operators: Mapping[str, Sequence[str]]) -> str:
    """Return mosquitto's access control file.

    A unit writes its own topics, under its own user name, and reads its budget. No user can
    therefore write for another unit, and no unit can give budgets.

    Args:
        units: Units; the user name of each is AREA/UNIT.
        operators: Areas that each operator may give budgets to, by user name.
    """
    lines = ["# Written by tfm power acl."]
    for name in units:
        lines += ["", f"user {name}", f"topic read {name.topic('budget')}"]
        lines += [f"topic readwrite {name.topic(word)}" for word in WRITTEN_BY_UNITS]
    for user, areas in operators.items():
        lines += ["", f"user {user}"]
        # With topics of any depth, the last level alone does not tell what may be written.
        lines += [f"topic readwrite {under(area)}" for area in areas]
    return "\n".join(lines) + "\n"
