# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Topics, messages, and who may read and write which. Pure.

A topic is tfm/v1/AREA/UNIT/WORD; an area has one or more levels. So one filter, such as
tfm/v1/faculty/#, has all of an area, and a broker can tell by the topic who may do what.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from tf_malleable.api.naming import is_area

ROOT: Final = "tfm/v1"

Word = Literal["state", "budget", "ack", "profile"]
WRITTEN_BY_UNITS: Final[tuple[Word, ...]] = ("state", "ack", "profile")

_UNIT = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True)
class UnitName:
    """A host's controller.

    Attributes:
        area: The area that the host belongs to.
        unit: Its name there.

    Raises:
        ValueError: The area or the name is none.
    """

    area: str
    unit: str

    def __post_init__(self) -> None:
        if not is_area(self.area) or not _UNIT.fullmatch(self.unit):
            raise ValueError(
                f"a unit is named by letters, digits, _, . and -, not {self.area}/{self.unit}"
            )

    def topic(self, word: Word) -> str:
        """Return one of its topics."""
        return f"{ROOT}/{self.area}/{self.unit}/{word}"

    def __str__(self) -> str:
        return f"{self.area}/{self.unit}"


def named(topic: str) -> tuple[UnitName, str] | None:
    """Return the unit and the word of a topic; None if it is not one of ours."""
    parts = topic.removeprefix(f"{ROOT}/").split("/")
    if not topic.startswith(f"{ROOT}/") or len(parts) < 3:
        return None
    try:
        return UnitName("/".join(parts[:-2]), parts[-2]), parts[-1]
    except ValueError:
        return None


def under(area: str, word: Word | None = None) -> str:
    """Return the filter of everything in an area and the areas in it."""
    return f"{ROOT}/{area}/#" if word is None else f"{ROOT}/{area}/+/{word}"


class UnitState(msgspec.Struct, frozen=True):
    """A unit as it is now; retained, and the broker says for it that it is dead.

    Attributes:
        state: Whether it is there.
        session: Differs between two processes that have the same name.
        cpus: CPUs of the host.
        curve: What the host draws, as pairs of load, 0 … 1, and watts; empty if unknown.
    """

    state: Literal["alive", "dead"]
    session: Annotated[str, Meta(max_length=64)]
    cpus: Annotated[int, Meta(ge=0, le=65536)] = 0
    curve: Annotated[list[tuple[float, float]], Meta(max_length=128)] = []


class UnitAck(msgspec.Struct, frozen=True):
    """What has become of a budget.

    Attributes:
        serial: Its serial number; null if it could not be read.
        accepted: It is kept from now on.
        reason: Why it is not.
    """

    serial: int | None
    accepted: bool
    reason: str | None = None


def acl(units: Iterable[UnitName], operators: Mapping[str, Sequence[str]]) -> str:
    """Return mosquitto's file of who may read and write what.

    A unit writes what is its own, under its own user name, and reads its budget. So nobody
    speaks for another unit, and no unit gives budgets.

    Args:
        units: The units; the user name of each is AREA/UNIT.
        operators: The areas that each operator may give budgets to, by user name.
    """
    lines = ["# Written by tfm power acl."]
    for name in units:
        lines += ["", f"user {name}", f"topic read {name.topic('budget')}"]
        lines += [f"topic readwrite {name.topic(word)}" for word in WRITTEN_BY_UNITS]
    for user, areas in operators.items():
        lines += ["", f"user {user}"]
        # With topics of any depth, what may be written cannot be told from the last level alone.
        lines += [f"topic readwrite {under(area)}" for area in areas]
    return "\n".join(lines) + "\n"
