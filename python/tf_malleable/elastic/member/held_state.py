# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""State that a member holds: which one it is, and the sum that has led to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tf_malleable.elastic.membership.recovery_point import Position
from tf_malleable.elastic.mesh import StateHolder

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[Any, Any]


class HeldState:
    """Position of a member's state, and its last sum; the process's condition guards them.

    Attributes:
        step: Step that follows the state.
        lineage: Lineage of the training whose state this is; empty while there is no state.
    """

    def __init__(self, holder: StateHolder) -> None:
        """Create the record of a process that holds no state yet.

        Args:
            holder: Holder of the state itself.
        """
        self._holder = holder
        self.step = 0
        self.lineage = ""
        self._sum: tuple[int, Vector] | None = None
        self._rooms: list[Vector] = []
        self._is_just_loaded = False

    @property
    def is_own(self) -> bool:
        """Whether there is a state that the training itself has, not one that was just loaded."""
        return bool(self.lineage) and not self._is_just_loaded

    def position(self) -> Position:
        """Return the position for the coordinator."""
        return Position(self.lineage, self.step, self.sum_of(self.step - 1) is not None)

    def sum_of(self, step: int) -> Vector | None:
        """Return the sum of a step if it is the last one that is kept; else None."""
        return self._sum[1] if self._sum is not None and self._sum[0] == step else None

    def room(self, words: int, type_: str) -> Vector:
        """Return a buffer for a sum that does not overwrite the last one."""
        import numpy as np

        kept = None if self._sum is None else self._sum[1]
        for each in self._rooms:
            if each is not kept and (len(each), each.dtype.name) == (words, type_):
                return each
        self._rooms = [each for each in self._rooms if each is kept][-1:]
        self._rooms.append(np.empty(words, type_))
        return self._rooms[-1]

    def load(self, description: bytes, buffers: Sequence[memoryview]) -> None:
        """Load a state; it is the training's own only after the next taken_over()."""
        self._holder.load(description, buffers)
        self._is_just_loaded = True

    def taken_over(self) -> None:
        """Note that the training has taken over the state that was loaded, if any was."""
        self._is_just_loaded = False

    def commit(self, step: int, vector: Vector | None) -> None:
        """Advance by one step.

        Args:
            step: The step.
            vector: Its sum, which is kept; None if no other process takes part.
        """
        self._sum = None if vector is None else (step, vector)
        self.step = step + 1
