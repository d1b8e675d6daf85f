# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One step of an allreduce: the frames to send to each peer, and the additions of what arrives."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from tf_malleable.elastic.allreduce.reduction_tree import Node, children, combine_at, cover
from tf_malleable.elastic.allreduce.vector_layout import Awaited, VectorLayout
from tf_malleable.elastic.generation import Generation, bounds
from tf_malleable.elastic.links.errors import AbortedError, LinkError, MeshError
from tf_malleable.elastic.links.frames import AGREED, PART, RESULT, STEP, Frame, Link

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[Any, Any]
    BufferAllocator = Callable[[int, str], Vector]

_TYPES: Final = ("", "float32", "float64")
# A few chunks of this many bytes fit into the cache of a core, beside their sum.
_CHUNK: Final = 1 << 19
# Frames read from one link before the others have their turn.
_FRAMES: Final = 4


@dataclass(frozen=True)
class Summed:
    """Result of a step.

    Attributes:
        step: Number of the step.
        following: Number of the generation that follows this step; 0 if the current one continues.
        vector: The sum; on a server, its slice of the sum.
    """

    step: int
    following: int
    vector: Vector


class Surroundings(Protocol):
    """Context that all steps of an allreduce share; see allreduce.Allreduce."""

    generation: Generation
    me: str
    links: Mapping[str, Link]
    aborted: int
    is_first: bool

    def progress(self, pending: dict[int, int]) -> None:
        """Note that data have moved, and the poll() events that each socket waits for."""

    def inbox(self, sender: str, count: int, words: int, type_: str) -> Vector:
        """Return the buffer for a sender's parts."""


class AllreduceStep:
    """One step of an allreduce, as seen by one of its processes."""

    def __init__(
        self,
        exchange: Surroundings,
        step: int | None,
        parts: Mapping[Node, Vector],
        proposed: int,
        room: BufferAllocator,
    ) -> None:
        """Create the step; arguments as for Allreduce.sum()."""
        self._exchange, self._generation = exchange, exchange.generation
        self._step, self._parts, self._room = step, parts, room
        self._agreed = proposed
        self._owners = {id_: index for index, id_ in enumerate(self._generation.owners)}
        self._slice = self._owners.get(exchange.me)
        self._is_member = self._generation.member(exchange.me) is not None
        self._unheard = {each.id for each in self._generation.members} - {exchange.me}
        self._shape: VectorLayout | None = None
        # Sums that are ready before all have begun; their receivers may not know the length yet.
        self._early: list[tuple[Frame, memoryview]] = []
        self._has_told = False
        self._awaited = {id_: self._expected(id_) for id_ in exchange.links}

    def _expected(self, peer: str) -> Awaited:
        sends = self._slice is not None and self._generation.member(peer) is not None
        returns = self._is_member and peer in self._owners
        nodes = self._nodes(peer) if sends else ()
        return Awaited(sends, returns, None if nodes else 0, None if returns else 0, nodes)

    def _run(self, member: str) -> tuple[int, int]:
        return self._generation.run(member, is_first_step=self._exchange.is_first)

    def _nodes(self, member: str) -> tuple[Node, ...]:
        return cover(self._generation.shards, *self._run(member))

    def complete(self) -> Summed:
        """Take part in the step to its end, and return its result."""
        self._begin()
        self._serve()
        assert self._shape is not None
        assert self._step is not None
        following = self._agreed if self._agreed > self._generation.number else 0
        return Summed(self._step, following, self._shape.vector)

    def _begin(self) -> None:
        own = self._nodes(self._exchange.me) if self._is_member else ()
        if set(own) != set(self._parts):
            raise ValueError(f"the run of this member has the nodes {own}, not {[*self._parts]}")
        words = code = 0
        if own:
            first = self._parts[own[0]]
            words, code = len(first), _TYPES.index(first.dtype.name)
            self._learn(words, code, self._exchange.me)
        if not self._is_member:
            return
        assert self._step is not None
        for id_, index in self._owners.items():
            if id_ == self._exchange.me:
                continue
            link = self._exchange.links[id_]
            run = self._run(self._exchange.me)
            link.put(Frame(STEP, code, *run, self._step, words, self._agreed))
            link.put_bulk(self._slices(own, index))
        self._heard(None)

    def _slices(self, own: tuple[Node, ...], owner: int) -> Iterator[tuple[Frame, memoryview]]:
        """Yield the frames with this member's parts of an owner's slice."""
        if not own:
            return
        shape = self._shape
        assert shape is not None
        for chunk in range(shape.chunks(owner)):
            start, stop = shape.span(owner, chunk)
            for place, node in enumerate(own):
                payload = self._parts[node][start:stop].data.cast("B")
                yield Frame(PART, number=chunk * len(own) + place, words=len(payload)), payload

    def _learn(self, words: int, code: int, sender: str) -> None:
        """Take the length and type of the vector from a process that knows them."""
        if not words:
            return
        name = _TYPES[code] if code < len(_TYPES) else ""
        if self._shape is not None:
            if (self._shape.words, self._shape.type) != (words, name):
                raise MeshError(
                    f"member {sender} sums {words} words of {name} and this one"
                    f" {self._shape.words} of {self._shape.type}: all must run the same program"
                )
            return
        if not name:
            raise MeshError(f"member {sender} sums words of an unknown type")
        edges = bounds(words, len(self._owners))
        offset, room = 0, words
        if not self._is_member:
            assert self._slice is not None
            offset, room = edges[self._slice][0], edges[self._slice][1] - edges[self._slice][0]
        vector = self._reserved(room, name, sender)
        shape = VectorLayout(words, name, edges, _CHUNK // vector.itemsize, vector, offset)
        self._shape = shape
        for id_, awaited in self._awaited.items():
            if awaited.results is None:
                awaited.results = shape.chunks(self._owners[id_])
            if awaited.parts is None:
                assert self._slice is not None
                size = edges[self._slice][1] - edges[self._slice][0]
                count = len(awaited.nodes)
                awaited.parts = count * shape.chunks(self._slice)
                awaited.inbox = self._exchange.inbox(id_, count, size, name)
        if self._slice is not None:
            parts = sum(len(awaited.nodes) for awaited in self._awaited.values())
            shape.missing = [parts] * shape.chunks(self._slice)
            if not parts:
                for chunk in range(shape.chunks(self._slice)):
                    self._add(chunk)

    def _reserved(self, words: int, type_: str, sender: str) -> Vector:
        """Return a vector of a length that a process has sent."""
        try:
            return self._room(words, type_)
        except (MemoryError, ValueError):
            raise MeshError(
                f"member {sender} sums words of {type_} for which there is no memory: {words}"
            ) from None

    def _serve(self) -> None:
        """Send and receive until nothing is pending."""
        links = {link.socket.fileno(): link for link in self._exchange.links.values()}
        poll, wanted = select.poll(), dict.fromkeys(links, 0)
        poll.register(self._exchange.aborted, select.POLLIN)
        while True:
            for descriptor, link in links.items():
                events = select.POLLIN * self._awaited[link.id].anything
                events |= select.POLLOUT * link.has_more
                if events == wanted[descriptor]:
                    continue
                # A link without events is not registered: its peer may have hung up.
                if events:
                    poll.register(descriptor, events)
                else:
                    poll.unregister(descriptor)
                wanted[descriptor] = events
            self._exchange.progress(wanted)
            if not any(wanted.values()):
                return
            for descriptor, events in poll.poll():
                if descriptor == self._exchange.aborted:
                    raise AbortedError
                self._attend(links[descriptor], events)

    def _attend(self, link: Link, events: int) -> None:
        try:
            # Also if the peer has hung up: only a send then reports it.
            if events & ~select.POLLIN and link.has_more:
                link.flush()
            if events & ~select.POLLOUT:
                for _ in range(_FRAMES):
                    awaits = self._awaited[link.id].anything
                    frame = (
                        link.receive(lambda each: self._place(link.id, each)) if awaits else None
                    )
                    if frame is None:
                        break
                    self._take(link.id, frame)
        except (OSError, EOFError) as error:
            raise LinkError([link.id]) from error

    def _place(self, peer: str, frame: Frame) -> memoryview | None:
        """Return the buffer for the payload of a frame; None if it has no payload."""
        awaited = self._awaited[peer]
        if not awaited.is_due(frame.kind):
            raise ConnectionAbortedError("it sent something out of order")
        if frame.kind in (STEP, AGREED):
            return None
        shape = self._shape
        assert shape is not None
        owner = self._owners[peer] if frame.kind == RESULT else self._slice
        assert owner is not None
        chunk, number = divmod(frame.number, len(awaited.nodes) if frame.kind == PART else 1)
        if chunk >= shape.chunks(owner):
            raise ConnectionAbortedError("it sent a chunk that the vector does not have")
        if frame.kind == RESULT:
            start, stop = shape.span(owner, chunk)
            place = shape.vector[start:stop]
        else:
            assert self._slice is not None
            assert awaited.inbox is not None
            first = shape.bounds[self._slice][0]
            start, stop = shape.span(self._slice, chunk)
            place = awaited.inbox[number][start - first : stop - first]
        view = place.data.cast("B")
        if len(view) != frame.words:
            raise ConnectionAbortedError("it sent a chunk of another size")
        return view

    def _take(self, peer: str, frame: Frame) -> None:
        """Process a frame that has arrived."""
        awaited = self._awaited[peer]
        if frame.kind == STEP:
            if self._step is None:
                self._step = frame.number
            if (frame.number, frame.start, frame.stop) != (self._step, *self._run(peer)):
                raise ConnectionAbortedError(
                    f"it computes shards {frame.start} to {frame.stop} of step {frame.number},"
                    f" which is not what was agreed for step {self._step}"
                )
            awaited.step = False
            self._agreed = max(self._agreed, frame.generation)
            self._learn(frame.words, frame.type, peer)
            self._heard(peer)
        elif frame.kind == AGREED:
            awaited.agreed = False
            self._agreed = max(self._agreed, frame.generation)
            self._learn(frame.words, frame.type, peer)
        elif frame.kind == RESULT:
            assert awaited.results is not None
            awaited.results -= 1
        else:
            assert awaited.parts is not None
            assert self._shape is not None
            awaited.parts -= 1
            chunk = frame.number // len(awaited.nodes)
            self._shape.missing[chunk] -= 1
            if not self._shape.missing[chunk]:
                self._add(chunk)

    def _others(self) -> Iterator[Link]:
        for member in self._generation.members:
            if member.id != self._exchange.me:
                yield self._exchange.links[member.id]

    def _heard(self, peer: str | None) -> None:
        """Note that a peer has begun the step; once all have, an owner sends what was agreed."""
        self._unheard.discard(peer or "")
        if self._unheard or self._slice is None:
            return
        if self._shape is None:
            raise ConnectionAbortedError("no member has said how long the vector is")
        assert self._step is not None
        code, words = _TYPES.index(self._shape.type), self._shape.words
        self._has_told = True
        for link in self._others():
            link.put(Frame(AGREED, code, 0, 0, self._step, words, self._agreed))
            for frame, payload in self._early:
                link.put(frame, payload)

    def _add(self, chunk: int) -> None:
        """Add up a chunk of which all parts have arrived, and send the sum to all members."""
        import numpy as np

        shape = self._shape
        assert shape is not None
        assert self._slice is not None
        start, stop = shape.span(self._slice, chunk)
        first = shape.bounds[self._slice][0]
        leaves = {node: part[start:stop] for node, part in self._parts.items()}
        for awaited in self._awaited.values():
            for number, node in enumerate(awaited.nodes):
                assert awaited.inbox is not None
                leaves[node] = awaited.inbox[number][start - first : stop - first]
        total = shape.vector[start - shape.offset : stop - shape.offset]
        root = Node(0, self._generation.shards)
        if root in leaves:
            np.copyto(total, leaves[root])
        else:
            left, right = children(root)
            np.add(combine_at(left, leaves, np.add), combine_at(right, leaves, np.add), out=total)
        payload = total.data.cast("B")
        frame = Frame(RESULT, number=chunk, words=len(payload))
        if not self._has_told:
            self._early.append((frame, payload))
            return
        for link in self._others():
            link.put(frame, payload)
