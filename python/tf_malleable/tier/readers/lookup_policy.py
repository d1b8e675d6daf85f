# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""When a reader of small files need not wait for an answer from another node.

To ask a home takes as long as a small file takes to read. If many files of a folder in a row were
nobody else's, the next ones are taken for that, too: their readers do not ask at all, and the home
is asked of some of them afterwards. The first one that somebody else has ends this: at worst some
files a reader are read twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

SMALL: Final = 256 << 10
"""Bytes of a file that is small."""
IN_A_ROW: Final = 16
"""So many files that nobody else had."""
_MOST_FOLDERS: Final = 10_000


@dataclass
class _Habit:
    """Of the readers of one folder, and of those in it."""

    in_a_row: int = 0
    is_small: bool = False

    @property
    def is_unasked(self) -> bool:
        return self.is_small and self.in_a_row >= IN_A_ROW


class LookupPolicy:
    """What was seen of the files of each folder.

    Attributes:
        tell: Is called with a folder if this changes: its files may be read before anything is
            asked.
    """

    def __init__(self) -> None:
        """Nothing was seen, and nobody is to be told."""
        self._folders: dict[str, _Habit] = {}
        self.tell: Callable[[str, bool], None] = lambda folder, is_unasked: None

    def is_likely_nobodys(self, path: str) -> bool:
        """Return whether a file may be read before its home has answered."""
        return any(
            habit is not None and habit.is_unasked
            for habit in map(self._folders.get, _around(path))
        )

    def answered(self, path: str, is_nobodys: bool) -> None:
        """Note what a home has answered."""
        for folder in _around(path):
            habit = self._of(folder)
            before = habit.is_unasked
            habit.in_a_row = habit.in_a_row + 1 if is_nobodys else 0
            self._told(folder, before, habit)

    def read(self, path: str, size: int) -> None:
        """Note how large a file was."""
        for folder in _around(path):
            habit = self._of(folder)
            before = habit.is_unasked
            habit.is_small = size <= SMALL
            self._told(folder, before, habit)

    def _told(self, folder: str, before: bool, habit: _Habit) -> None:
        if habit.is_unasked != before:
            self.tell(folder, not before)

    def _of(self, folder: str) -> _Habit:
        if len(self._folders) >= _MOST_FOLDERS:
            for each, habit in self._folders.items():
                if habit.is_unasked:
                    self.tell(each, False)
            self._folders.clear()
        return self._folders.setdefault(folder, _Habit())


def _around(path: str) -> list[str]:
    """Return the folder of a file, and the one around: data sets have a folder for each class."""
    folder = path.rpartition("/")[0]
    return [each for each in (folder, folder.rpartition("/")[0]) if each]
