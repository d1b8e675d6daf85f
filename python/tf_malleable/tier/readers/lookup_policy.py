# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Lookup policy: which readers of small files need not wait for an answer from another node.

A request to a home takes as long as reading a small file. If no other node had a copy of many
files of a folder in a row, the same is assumed of the next ones: their readers skip the lookup,
and the home is asked about some of them afterwards. The first file that another node has ends
this: at worst, some files per reader are read from the source twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

SMALL: Final = 256 << 10
"""Maximum size in bytes of a small file."""
IN_A_ROW: Final = 16
"""Number of files in a row that no other node had."""
_MOST_FOLDERS: Final = 10_000


@dataclass
class _Habit:
    """Observations about the files of one folder, and of the folders in it."""

    in_a_row: int = 0
    is_small: bool = False

    @property
    def is_unasked(self) -> bool:
        return self.is_small and self.in_a_row >= IN_A_ROW


class LookupPolicy:
    """Observations about the files of each folder, and the decisions from them.

    Attributes:
        tell: Callback for each change: receives a folder, and whether its files may be read
            without a lookup.
    """

    def __init__(self) -> None:
        self._folders: dict[str, _Habit] = {}
        self.tell: Callable[[str, bool], None] = lambda folder, is_unasked: None

    def is_likely_nobodys(self, path: str) -> bool:
        """Return whether a file may be read before its home has answered."""
        return any(
            habit is not None and habit.is_unasked
            for habit in map(self._folders.get, _around(path))
        )

    def answered(self, path: str, is_nobodys: bool) -> None:
        """Note the answer of a home.

        Args:
            path: Path of the file.
            is_nobodys: Whether no other node has the file.
        """
        for folder in _around(path):
            habit = self._of(folder)
            before = habit.is_unasked
            habit.in_a_row = habit.in_a_row + 1 if is_nobodys else 0
            self._told(folder, before, habit)

    def read(self, path: str, size: int) -> None:
        """Note the size of a file that a reader has read, in bytes."""
        is_small = size <= SMALL
        for folder in _around(path):
            habit = self._of(folder)
            if habit.is_small != is_small:
                before = habit.is_unasked
                habit.is_small = is_small
                self._told(folder, before, habit)

    def _told(self, folder: str, before: bool, habit: _Habit) -> None:
        if habit.is_unasked != before:
            self.tell(folder, not before)

    def _of(self, folder: str) -> _Habit:
        found = self._folders.get(folder)
        if found is None:
            if len(self._folders) >= _MOST_FOLDERS:
                for each, habit in self._folders.items():
                    if habit.is_unasked:
                        self.tell(each, False)
                self._folders.clear()
            found = self._folders[folder] = _Habit()
        return found


def _around(path: str) -> list[str]:
    """Return the folder of a file and its parent: data sets often have a folder per class."""
    folder = path.rpartition("/")[0]
    return [each for each in (folder, folder.rpartition("/")[0]) if each]
