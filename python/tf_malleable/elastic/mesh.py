# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a training asks of the mesh of members, and the mesh of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tf_malleable.elastic.tree import Node

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class Turn:
    """What this member is to do from a step on.

    Attributes:
        generation: Number of the membership.
        start: First shard of its run.
        stop: First shard after its run; equal to start if it computes none.
        shards: Shards of all members.
        is_lead: It is the one that saves files.
        finished: The training is over, and this member has come too late.
        leaving: It has handed over; its training ends here, quietly.
    """

    generation: int
    start: int
    stop: int
    shards: int
    is_lead: bool
    finished: bool = False
    leaving: bool = False

    @property
    def is_whole(self) -> bool:
        """True if this member computes all shards, and so needs nobody's sums."""
        return self.stop - self.start == self.shards


class Rescaled(Exception):  # noqa: N818 - nothing failed.
    """The members changed within a step, which is to be repeated with another run."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(f"generation {turn.generation}")
        self.turn = turn


class StateHolder(Protocol):
    """Everything of a training that a newcomer needs.

    The mesh calls it from the thread that calls the mesh.
    """

    def describe(self) -> bytes:
        """Return names, shapes, dtypes, the position and the logs of past epochs."""

    def buffers(self) -> Sequence[memoryview]:
        """Return the bytes of all variables; they stay as they are until release()."""

    def release(self) -> None:
        """Let go of what buffers() returned."""

    def load(self, description: bytes, buffers: Sequence[Any]) -> None:
        """Take over the state of another member.

        Raises:
            RefusedError: It is the state of another training.
        """


class Mesh(Protocol):
    """The members of a training, as seen by one of them. Not thread-safe."""

    def ahead(self) -> bytes | None:
        """Return how another member describes its state now; None if there is no other.

        A newcomer asks before its first begin(), and brings its data to that position
        while the others train on.
        """

    def begin(self, step: int) -> Turn:
        """Begin a step: the only moment at which members change, but for Rescaled.

        A newcomer's state is loaded in its first call.
        """

    def reduce(self, step: int, parts: Mapping[Node, Vector]) -> Vector:
        """Return the sum at the root of the tree.

        Args:
            step: The step that has begun.
            parts: Sums at the nodes that cover this member's run; vectors of one length
                for all members.

        Raises:
            Rescaled: The members changed; to be called again with the parts of the new run.
        """

    def end(self, step: int) -> None:
        """Say that the step has been applied: the state is that of step + 1."""

    def finish(self) -> None:
        """Say that the training is over, and wait for the other members."""


class Alone:
    """A mesh of one member, which needs no network and no coordinator."""

    def __init__(self, shards: int) -> None:
        """Make one.

        Args:
            shards: Into how many each batch is cut.
        """
        self._turn = Turn(0, 0, shards, shards, is_lead=True)

    def ahead(self) -> bytes | None:
        """Return None: there is no other member."""
        return None

    def begin(self, step: int) -> Turn:
        """Return the same turn for each step."""
        return self._turn

    def reduce(self, step: int, parts: Mapping[Node, Vector]) -> Vector:
        """Return the only part."""
        return parts[Node(0, self._turn.shards)]

    def end(self, step: int) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""
