# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Access order: learns the order in which programs open files, and predicts the next ones. No I/O.

A program that opens the same files again, as after an eviction of the copies or in a run of the
next day, often does so in the same order: that of a list, or of a random seed. For a program that
shuffles anew, nothing is predicted, as it never opens several files in a known order in a row.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

IN_A_ROW: Final = 4
"""Number of files in the earlier order that makes a repetition likely."""
LEAST: Final = 8
"""Minimum number of files whose order is recorded."""
AHEAD: Final = 4
"""Number of files that are predicted."""
_STEP: Final = 64
# Some 50 MB, if their paths are long.
_MOST_FILES: Final = 200_000
_MOST_ORDERS: Final = 16


@dataclass
class OpeningProgram:
    """One program that opens files.

    Attributes:
        seen: Paths that the program has opened in the source, in this order.
        number: Number of the known order that the program may follow; -1 for none.
        place: Index of the last file in that order; -1 for none.
        in_a_row: Number of files in a row that followed that order.
    """

    seen: dict[str, None] = field(default_factory=dict)
    number: int = -1
    place: int = -1
    in_a_row: int = 0

    @property
    def is_following(self) -> bool:
        """Whether the program opens files in a known order."""
        return self.in_a_row >= IN_A_ROW


class AccessOrder:
    """The orders in which recent programs opened files."""

    def __init__(self) -> None:
        self._orders: OrderedDict[int, tuple[str, ...]] = OrderedDict()
        self._places: dict[str, tuple[int, int]] = {}
        self._number = 0

    def opened(self, program: OpeningProgram, path: str, is_copy: bool) -> tuple[str, ...]:
        """Note that a program has opened a file; return the files that it is likely to open next.

        Args:
            program: Program that opened the file.
            path: Path of the file.
            is_copy: Whether the program opened a complete copy. Only a few of these openings are
                reported. They show the program's place in an order, but teach no new order.

        Returns:
            The paths of the next files, in order; empty if the program follows no known order.
        """
        if not is_copy:
            self._see(program, path)
        number, place = self._places.get(path, (-1, -1))
        if number == program.number and place == program.place:
            return self._next(program)
        goes_on = (
            number >= 0
            and number == program.number
            and 0 < place - program.place <= (_STEP if program.is_following else 1)
        )
        program.in_a_row = program.in_a_row + 1 if goes_on else 0
        program.number, program.place = number, place
        return self._next(program)

    def ended(self, program: OpeningProgram) -> None:
        """Learn the order of a program that opens no more files."""
        if len(program.seen) >= LEAST and not program.is_following:
            self._learn(tuple(program.seen))
        program.seen = {}

    def _see(self, program: OpeningProgram, path: str) -> None:
        if program.is_following:
            program.seen = {}
            return
        if path in program.seen and path != next(reversed(program.seen)):
            self.ended(program)  # A new pass over the files begins.
        if len(program.seen) < _MOST_FILES:
            program.seen[path] = None

    def _next(self, program: OpeningProgram) -> tuple[str, ...]:
        order = self._orders.get(program.number)
        if order is None or not program.is_following:
            return ()
        return order[program.place + 1 : program.place + 1 + AHEAD]

    def _count(self) -> int:
        return sum(map(len, self._orders.values()))

    def _learn(self, order: tuple[str, ...]) -> None:
        self._number += 1
        self._orders[self._number] = order
        self._places.update((path, (self._number, place)) for place, path in enumerate(order))
        while len(self._orders) > _MOST_ORDERS or self._count() > _MOST_FILES:
            old, paths = self._orders.popitem(last=False)
            for path in paths:
                if self._places[path][0] == old:
                    del self._places[path]
