# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Layout of a step's vector, and what each peer has yet to send."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tf_malleable.elastic.allreduce.reduction_tree import Node
from tf_malleable.elastic.links.frames import AGREED, PART, RESULT, STEP

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[Any, Any]


@dataclass
class Awaited:
    """Frames of a step that a peer has yet to send.

    Attributes:
        step: True until the peer has begun the step.
        agreed: True until the peer has said that all members have begun.
        parts: Number of missing frames with the peer's parts; None while the length of the vector
            is unknown.
        results: Number of missing frames with the peer's sums; None likewise.
        nodes: Nodes of the tree whose sums are the peer's parts.
        inbox: Buffer for the peer's parts; None if there is none yet.
    """

    step: bool
    agreed: bool
    parts: int | None
    results: int | None
    nodes: tuple[Node, ...] = ()
    inbox: Vector | None = None

    @property
    def anything(self) -> bool:
        """Whether any frame is still to come."""
        return self.step or self.agreed or self.parts != 0 or self.results != 0

    def is_due(self, kind: int) -> bool:
        """Return whether a frame of a kind may come now."""
        due = {STEP: self.step, AGREED: self.agreed, PART: self.parts, RESULT: self.results}
        return bool(due.get(kind))


@dataclass
class VectorLayout:
    """Layout of a step's vector, once its length is known.

    Attributes:
        words: Length of the vector, in words.
        type: NumPy type of the words.
        bounds: First word of each owner's slice, and the first word after it.
        chunk: Length of a chunk, in words.
        vector: Buffer for the sum.
        offset: Position of the buffer's first word in the whole vector.
        missing: Number of parts of each chunk of this process's slice that have not arrived.
    """

    words: int
    type: str
    bounds: tuple[tuple[int, int], ...]
    chunk: int
    vector: Vector
    offset: int
    missing: list[int] = field(default_factory=list)

    def chunks(self, owner: int) -> int:
        """Return the number of chunks of an owner's slice."""
        start, stop = self.bounds[owner]
        return -(-(stop - start) // self.chunk)

    def span(self, owner: int, chunk: int) -> tuple[int, int]:
        """Return the first word of a chunk of an owner's slice, and the first word after it."""
        start, stop = self.bounds[owner]
        first = start + chunk * self.chunk
        return first, min(first + self.chunk, stop)
