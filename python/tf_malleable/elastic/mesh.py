# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Mesh: a training's interface to the other processes that train with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tf_malleable.elastic.allreduce.reduction_tree import Node

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Turn:
    """Work of a member in a step.

    Attributes:
        step: Number of the step. For a newcomer it is not the one that it asked for: its state
            has been loaded, and is that of this step.
        generation: Number of the generation, for the user.
        start: First shard to compute.
        stop: First shard after those; equal to `start` if there is nothing to compute.
        is_lead: True if this member saves files.
        is_first: True in the first step of a generation, for all its members.
        is_only: True if no other process takes part. The step is as good as done: reduce() is
            not called, and the sum at the root is this process's.
        finished: True if the training has ended without this process, which has no state and
            must end.
        leaving: True if this process is no longer a member, and must end quietly with `exit_code`.
        last: True if it leaves as the last member: what is not saved now is lost.
        kept: File that has the state of a member that leaves; empty if there is none.
        exit_code: Exit code for the end of the process.
    """

    step: int
    generation: int
    start: int = 0
    stop: int = 0
    is_lead: bool = False
    is_first: bool = False
    is_only: bool = False
    finished: bool = False
    leaving: bool = False
    last: bool = False
    kept: str = ""
    exit_code: int = 0

    @property
    def must_end(self) -> bool:
        """Whether this process takes part in no more steps."""
        return self.finished or self.leaving


class Rescaled(Exception):  # noqa: N818 - nothing has gone wrong.
    """The members have changed within a step.

    Attributes:
        turn: What to do now: compute other shards of the same step, or end.
    """

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        super().__init__(f"generation {turn.generation}")


class StateHolder(Protocol):
    """State of a training. All methods but load() may be called from any thread.

    They are called only while the state does not change: after begin() has returned and before
    reduce() does. The mesh delays the return of reduce() until it has called release().
    """

    def describe(self) -> bytes:
        """Return what load() needs besides the buffers; at most a few megabytes."""

    def buffers(self) -> Sequence[memoryview]:
        """Return the bytes of the state; they do not change before release()."""

    def release(self) -> None:
        """Note that the buffers are no longer used."""

    def load(self, description: bytes, buffers: Sequence[memoryview]) -> None:
        """Take over a state; called inside begin(), in the thread of the training."""


@runtime_checkable
class CountsBatches(Protocol):
    """A training that counts its batches; may be asked from any thread."""

    def batches(self) -> tuple[int | None, int | None]:
        """Return the number of batches done, and in all; None for a number not known."""


@runtime_checkable
class HoldsStill(Protocol):
    """A StateHolder whose state can be had without a copy; asked between two steps."""

    def still_buffers(self) -> Sequence[memoryview]:
        """Return the bytes of the state; they do not change although steps continue."""

    def is_at_epoch_end(self) -> bool:
        """Return whether the state is that after an epoch."""


@runtime_checkable
class RestoresState(Protocol):
    """A mesh whose state may come from a file.

    Attributes:
        restored_from: File of the state that was loaded or will be; empty if there is none.
    """

    restored_from: str


class Mesh(Protocol):
    """Interface that a training calls, from one thread."""

    @property
    def shards(self) -> int:
        """Number of shards of each batch."""

    def ahead(self) -> bytes | None:
        """Return a member's description of its current state; None if this is the first member.

        It is called before the first begin(), so that a newcomer can bring its data to that
        position while the others train on. It waits until there is an answer: of several
        processes that start at once, one is the first.

        Raises:
            Rescaled: There is nothing to do for this process; its turn says that it must end.
        """

    def begin(self, step: int) -> Turn:
        """Begin a step; this is where members join and leave.

        Args:
            step: Step that follows this process's state. In the first call, a member that is not
                the first gets the state of another one, and the turn has the step of that state.
        """

    def reduce(self, step: int, parts: Mapping[Node, Vector]) -> Vector:
        """Return the sum over all shards, the same bits for every member.

        Args:
            step: As in begin().
            parts: Sum at each node of the run of the latest turn (see reduction_tree.cover()):
                contiguous vectors of float32 or float64, all of one length. They must not
                change until this returns, nor must the training's state.

        Returns:
            The sum. It must not be changed, and is valid until the next call.

        Raises:
            Rescaled: Call again with the parts of another turn, or end.
            MeshError: Another member runs a different computation.
        """

    def end(self, step: int) -> None:
        """Note that the step has been applied: the state is now that of the next step."""

    def finish(self) -> Turn:
        """Note that there are no more steps; return once all members have called this.

        Returns:
            A turn that says whether this member is the lead.
        """

    def leave(self) -> None:
        """Ask to leave; a later turn says that this process is no longer a member.

        A signal handler may call this, and any thread.
        """

    def close(self) -> None:
        """Close all connections; no other call follows."""


class Alone:
    """Mesh of one member, which needs no network and no coordinator."""

    def __init__(self, shards: int) -> None:
        """Create the mesh.

        Args:
            shards: Number of shards of each batch.
        """
        self.shards = shards

    def ahead(self) -> bytes | None:
        """Return None: there is no other member."""
        return None

    def begin(self, step: int) -> Turn:
        """Return a turn with all shards."""
        return Turn(step, 0, 0, self.shards, is_lead=True, is_only=True)

    def reduce(self, step: int, parts: Mapping[Node, Vector]) -> Vector:
        """Return the only part."""
        return parts[Node(0, self.shards)]

    def end(self, step: int) -> None:
        """Do nothing."""

    def finish(self) -> Turn:
        """Return at once."""
        return Turn(0, 0, is_lead=True)

    def leave(self) -> None:
        """Do nothing: there is no member to hand over to."""

    def close(self) -> None:
        """Do nothing."""
