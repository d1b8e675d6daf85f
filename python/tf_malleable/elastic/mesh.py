# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a training sees of the others that train with it."""

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
    """What a member does in a step.

    Attributes:
        step: The step. Of a newcomer it is not the one that it asked for: its state has been loaded
            and is that of this step.
        generation: Number of the generation, for people.
        start: The first shard to compute.
        stop: The one after the last; equal to `start` if there is nothing to compute.
        is_lead: This member saves files.
        is_first: It is the first step of its generation, for all members of it.
        is_only: No other process takes part. The step is as good as done: reduce() is not
            called, and the sum at the root is this process's.
        finished: The training has ended without this process, which has no state and must end.
        leaving: This process is no member any more, and must end quietly with `exit_code`.
        last: It leaves, and nobody is left: what is not saved now is lost.
        kept: File that has the state of a member that leaves; empty if there is none.
        exit_code: For the end of the process.
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
        turn: What to do now: other shards of the same step, or to end.
    """

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        super().__init__(f"generation {turn.generation}")


class StateHolder(Protocol):
    """The state of a training. All but load() may be called from any thread.

    They are called only while the state stands still: after begin() has returned and before
    reduce() does. The mesh waits with the return of reduce() until it has called release().
    """

    def describe(self) -> bytes:
        """Return what load() must know besides the buffers; at most a few megabytes."""

    def buffers(self) -> Sequence[memoryview]:
        """Return the bytes of the state; they do not change before release()."""

    def release(self) -> None:
        """The buffers are no longer used."""

    def load(self, description: bytes, buffers: Sequence[memoryview]) -> None:
        """Take over a state; called inside begin(), in the thread of the training."""


@runtime_checkable
class CountsBatches(Protocol):
    """Knows how far it is; may be asked from any thread."""

    def batches(self) -> tuple[int | None, int | None]:
        """Return how many batches are done, and will be done; None if that is not known."""


@runtime_checkable
class HoldsStill(Protocol):
    """A StateHolder of which a state can be had without a copy; asked between two steps."""

    def still_buffers(self) -> Sequence[memoryview]:
        """Return the bytes of the state; they stay as they are though steps go on."""

    def is_at_epoch_end(self) -> bool:
        """Return whether the state is that after an epoch."""


@runtime_checkable
class RestoresState(Protocol):
    """A mesh that may have a state from a file.

    Attributes:
        restored_from: The file of which the state is that was loaded or is to be; empty if none.
    """

    restored_from: str


class Mesh(Protocol):
    """What a training calls, from one thread."""

    @property
    def shards(self) -> int:
        """Into how many shards each batch is cut."""

    def ahead(self) -> bytes | None:
        """Return how a member describes its state now; None if this is the first member.

        To be asked before the first begin(), so that a newcomer can bring its data to that place
        while the others train on. Waits until there is an answer: of several processes that
        start at once, one is the first.

        Raises:
            Rescaled: There is nothing to do for this process, whose turn says that it must end.
        """

    def begin(self, step: int) -> Turn:
        """Begin a step; this is where members come and go.

        Args:
            step: The step that follows this process's state. In the first call a member that is
                not the first gets the state of another one, and the turn says of which step.
        """

    def reduce(self, step: int, parts: Mapping[Node, Vector]) -> Vector:
        """Return the sum over all shards, the same bits for every member.

        Args:
            step: As in begin().
            parts: The sum at each node of the run of the latest turn (see tree.cover()): vectors
                of float32 or float64, contiguous, all of one length. They must not change
                until this returns. Only the training's own state must not change, either.

        Returns:
            The sum. It must not be changed, and holds until the next call.

        Raises:
            Rescaled: Call again with the parts of another turn, or end.
            MeshError: Another member computes something else.
        """

    def end(self, step: int) -> None:
        """Say that the step has been applied: the state is now that of the next one."""

    def finish(self) -> Turn:
        """Say that there are no more steps; return once all have said so.

        Returns:
            A turn that says whether this member is the lead.
        """

    def leave(self) -> None:
        """Ask to go; a later turn says that this process is no member any more.

        May be called by a signal handler and from any thread.
        """

    def close(self) -> None:
        """Hang up; nothing else is called after it."""


class Alone:
    """A mesh of one member, which needs no network and no coordinator."""

    def __init__(self, shards: int) -> None:
        """Make one.

        Args:
            shards: Into how many each batch is cut.
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
        """Do nothing: there is nobody to hand over to."""

    def close(self) -> None:
        """Do nothing."""
