# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a process expects of the others in a step, and where it belongs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tf_malleable.elastic.allreduce.reduction_tree import Node

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[Any, Any]


@dataclass
class Awaited:
    """What is still to come from a peer in a step.

    Attributes:
        step: Whether it has yet to begin.
        agreed: Whether it has yet to say that all have begun.
        parts: How many frames with its parts; None while the length of the vector is not known.
        results: How many frames with its sums; None likewise.
        nodes: The nodes of its parts.
        inbox: Room for its parts.
    """

    step: bool
    agreed: bool
    parts: int | None
    results: int | None
    nodes: tuple[Node, ...] = ()
    inbox: Vector | None = None

    @property
    def anything(self) -> bool:
        """Whether anything is still to come."""
        return self.step or self.agreed or self.parts != 0 or self.results != 0


@dataclass
class VectorLayout:
    """The vector of a step, once its length is known.

    Attributes:
        words: Its length.
        type: Of its words.
        bounds: The slice of each owner.
        chunk: Length of a chunk.
        vector: Room for the sum.
        offset: The word with which that begins.
        missing: How many parts of each chunk of this process's slice have not arrived.
    """

    words: int
    type: str
    bounds: tuple[tuple[int, int], ...]
    chunk: int
    vector: Vector
    offset: int
    missing: list[int] = field(default_factory=list)

    def chunks(self, owner: int) -> int:
        """Return into how many chunks the slice of an owner is cut."""
        start, stop = self.bounds[owner]
        return -(-(stop - start) // self.chunk)

    def span(self, owner: int, chunk: int) -> tuple[int, int]:
        """Return the first word of a chunk of an owner's slice and the one after its last."""
        start, stop = self.bounds[owner]
        first = start + chunk * self.chunk
        return first, min(first + self.chunk, stop)
