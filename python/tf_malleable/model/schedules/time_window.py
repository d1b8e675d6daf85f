# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Time window: part of the day on some days of the week, such as 22:00-07:00 from Monday to Friday.

Without datetime, as `tfm run` checks the windows of a job before its program starts.
"""

from __future__ import annotations

import re

from tf_malleable.model.units import quoted
from tf_malleable.quick_dataclass import dataclass

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from typing import Final

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""Names of the days, from Monday; the number of a day is its index."""

_DAY_MINUTES: Final = 24 * 60
_BETWEEN: Final = re.compile(r"([0-9]{1,2}):([0-5][0-9])-([0-9]{1,2}):([0-5][0-9])", re.ASCII)


@dataclass(frozen=True)
class TimeWindow:
    """A part of the day. One that ends before it begins crosses midnight.

    Attributes:
        begin: First minute, from midnight, 0 … 1439.
        end: Minute at which it is over, 1 … 1440; of the next day if before `begin`.
        days: Numbers of the days on which it begins, 0 for Monday, in order; at least one.
    """

    begin: int
    end: int
    days: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)

    @property
    def between(self) -> str:
        """The part of the day, such as ``"22:00-07:00"``."""
        return f"{clock_text(self.begin)}-{clock_text(self.end)}"

    @property
    def days_text(self) -> str | None:
        """The days, such as ``"mon-fri"``; None for all."""
        if len(self.days) == len(DAYS):
            return None
        runs: list[list[int]] = []
        for day in self.days:
            if runs and runs[-1][-1] == day - 1:
                runs[-1].append(day)
            else:
                runs.append([day])
        ends = ((run[0], run[-1]) for run in runs)
        return ",".join(DAYS[a] if a == b else f"{DAYS[a]}-{DAYS[b]}" for a, b in ends)

    @property
    def phrase(self) -> str:
        """The window in a sentence: ``"between 22:00 and 07:00 (mon-fri)"``."""
        days = "" if self.days_text is None else f" ({self.days_text})"
        return f"between {clock_text(self.begin)} and {clock_text(self.end)}{days}"

    def __str__(self) -> str:
        return self.between if self.days_text is None else f"{self.between} {self.days_text}"


def clock_text(minute: int) -> str:
    """Return a minute of the day as text: ``"07:00"``."""
    return f"{minute // 60:02}:{minute % 60:02}"


def parse_window(between: str, days: str | None = None) -> TimeWindow:
    """Return the window of two texts.

    Args:
        between: Begin and end, such as ``"22:00-07:00"``.
        days: Days on which the window begins, such as ``"mon-fri"`` or ``"sat,sun"``; None for all.

    Raises:
        ValueError: A text has another form; the message says which, and what is allowed.
    """
    found = _BETWEEN.fullmatch(between) if isinstance(between, str) else None
    begin, end = _minutes(found) if found else (0, 0)
    if begin == end or begin >= _DAY_MINUTES or end > _DAY_MINUTES:
        raise ValueError(
            "between must be two different times from 00:00 to 24:00, such as 22:00-07:00,"
            f" not {quoted(between)}"
        )
    if end == 0:
        end = _DAY_MINUTES
    return TimeWindow(begin, end) if days is None else TimeWindow(begin, end, parse_days(days))


def _minutes(found: re.Match[str]) -> tuple[int, int]:
    first, second, third, fourth = map(int, found.groups())
    return 60 * first + second, 60 * third + fourth


def parse_days(text: str) -> tuple[int, ...]:
    """Return the numbers of some days of the week, in order.

    Raises:
        ValueError: The text has another form than ``"mon-fri,sun"``.
    """
    found: set[int] = set()
    try:
        for part in text.lower().split(","):
            first, dash, last = part.strip().partition("-")
            begin = DAYS.index(first)
            count = (DAYS.index(last) - begin) % len(DAYS) if dash else 0
            found.update((begin + each) % len(DAYS) for each in range(count + 1))
    except (AttributeError, ValueError):
        raise ValueError(
            f"days must be names such as mon-fri or sat,sun, of {', '.join(DAYS)},"
            f" not {quoted(text)}"
        ) from None
    return tuple(sorted(found))
