# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A bounded dictionary that drops the entries set longest ago and tracks unsaved ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class RecentlySet(Generic[_T]):
    """Keeps the values that were set most recently.

    Args:
        known: Initial keys and values, the most recently set last.
        keep: Maximum number of values.

    Attributes:
        unwritten: Changes since the caller last cleared it; None stands for a dropped value.
    """

    def __init__(self, known: Iterable[tuple[str, _T]] = (), keep: int = 10_000) -> None:
        self.unwritten: dict[str, _T | None] = {}
        self._values = dict(known)
        self._keep = keep

    def get(self, key: str) -> _T | None:
        """Return the value of a key; None if there is none."""
        return self._values.get(key)

    def set(self, key: str, value: _T) -> None:
        """Set the value of a key, and drop the oldest value if there are too many."""
        self._values.pop(key, None)
        self._values[key] = self.unwritten[key] = value
        if len(self._values) > self._keep:
            oldest = next(iter(self._values))
            del self._values[oldest]
            self.unwritten[oldest] = None
