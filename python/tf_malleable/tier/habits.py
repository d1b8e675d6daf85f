# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""When a reader of small files need not wait for an answer from another node.

To ask a home takes as long as a small file takes to read. If many files of a folder in a row were
nobody else's, the next one is taken for that, too, and the home is asked while it is read. The
first file that somebody else has ends this: at worst one file a reader is read twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SMALL: Final = 256 << 10
"""Bytes of a file that is small."""
IN_A_ROW: Final = 16
"""So many files that nobody else had."""
_MOST_FOLDERS: Final = 10_000


@dataclass
class _Habit:
    """Of the readers of one folder."""

    in_a_row: int = 0
    is_small: bool = False


class Habits:
    """What was seen of the files of each folder."""

    def __init__(self) -> None:
        """Nothing was seen."""
        self._folders: dict[str, _Habit] = {}

    def is_likely_nobodys(self, path: str) -> bool:
        """Return whether a file may be read before its home has answered."""
        habit = self._folders.get(_folder(path))
        return habit is not None and habit.is_small and habit.in_a_row >= IN_A_ROW

    def answered(self, path: str, is_nobodys: bool) -> None:
        """Note what a home has answered."""
        habit = self._of(path)
        habit.in_a_row = habit.in_a_row + 1 if is_nobodys else 0

    def read(self, path: str, size: int) -> None:
        """Note how large a file was."""
        self._of(path).is_small = size <= SMALL

    def _of(self, path: str) -> _Habit:
        if len(self._folders) >= _MOST_FOLDERS:
            self._folders.clear()
        return self._folders.setdefault(_folder(path), _Habit())


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
