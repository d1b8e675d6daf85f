# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Directory: locations of copies, kept by the home of each file.

This node asks the home of a file for its location, and tells homes which copies it has. News for
which no reader waits goes with the next beat, so that thousands of small files do not take
thousands of messages. A question for which a reader waits goes at once, together with all that
has been collected while the last message was under way. If a home does not answer, the file is
read from the source, as without peers.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from tf_malleable.tier.node_messages import RecordsAnswer, RecordsMessage
from tf_malleable.tier.peers.location_records import Location, Records
from tf_malleable.tier.peers.membership import Membership
from tf_malleable.tier.peers.node_client import NodeClient, PeerGoneError
from tf_malleable.tier.peers.rendezvous_hash import home_of, homes_of

BEAT_SECONDS: Final = 1.0
"""How often each other node is told that this one lives, which claims go on, and what is new. Each
message takes two daemons milliseconds."""
_MOST: Final = 2000
_NOTHING: Final = Location(True)
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass
class _Outgoing:
    """Contents of the next messages to one home.

    Attributes:
        ask: Futures of the answers, by file and version.
        hold: Files of which this node has copies, with their versions.
        release: Files of which this node no longer has a copy.
        one_at_a_time: Lock that keeps the messages in order.
        is_urgent: Whether a reader waits for an answer.
        is_hurried: Whether a task that sends urgent questions is running.
    """

    ask: dict[tuple[str, str], asyncio.Future[Location]] = field(default_factory=dict)
    hold: dict[str, str] = field(default_factory=dict)
    release: dict[str, None] = field(default_factory=dict)
    one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_urgent: bool = False
    is_hurried: bool = False

    @property
    def is_full(self) -> bool:
        """Whether there is enough for a full message."""
        return max(len(self.ask), len(self.hold), len(self.release)) >= _MOST

    def put_back(self, hold: Mapping[str, str], release: Mapping[str, None]) -> None:
        """Put back entries that the home has not received, unless they have changed since."""
        self.hold = {key: hold[key] for key in hold if key not in self.release} | self.hold
        self.release = {key: None for key in release if key not in self.hold} | self.release


class Directory:
    """The records of this node as a home, and access to those of other homes."""

    def __init__(
        self,
        membership: Membership,
        client: NodeClient | None,
        held: Callable[[], Mapping[str, str]],
        claimed: Callable[[], Iterable[str]],
    ) -> None:
        """Create a directory; needs a running event loop.

        Args:
            membership: Nodes of the tier.
            client: Client for other nodes; None without other nodes.
            held: Function that returns the keys of all complete copies of this node, with their
                versions.
            claimed: Function that returns the keys of the files that this node reads from the
                source.
        """
        self._membership, self._client = membership, client
        self._held, self._claimed = held, claimed
        self.records = Records()
        self._instance = secrets.token_hex(8)
        self._outgoing: dict[str, _Outgoing] = {}
        self._instances: dict[str, str] = {}
        self._live: frozenset[str] = frozenset()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def node(self) -> str:
        """Address of this node, its name among the nodes."""
        return self._membership.node

    def answer(self, message: RecordsMessage) -> RecordsAnswer:
        """Answer a message from a node, which may be this one, to this home."""
        now, records, node = time.monotonic(), self.records, message.node
        for key, version in message.hold:
            records.hold(key, version, node)
        records.keep_claims(message.keep, node, now)
        for key in message.release:
            records.release(key, node)
        asked = [records.ask(key, version, node, now) for key, version in message.ask]
        return RecordsAnswer(
            self._instance,
            tuple((each.is_yours, each.holders, each.is_whole) for each in asked),
            tuple(records.is_sole(key, node) for key in message.sole),
        )

    async def ask(self, key: str, version: str) -> Location:
        """Return the location of a file for this node; the source if its home does not answer."""
        home = home_of(key, self._membership.live())
        if home == self.node:
            return self.records.ask(key, version, self.node, time.monotonic())
        future = self._asked(home, key, version)
        outgoing = self._to(home)
        outgoing.is_urgent = True
        if not outgoing.is_hurried:
            outgoing.is_hurried = True
            task = asyncio.get_running_loop().create_task(self._hurry(home, outgoing))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(future)

    def ask_later(self, key: str, answered: Callable[[Location], None]) -> None:
        """Ask for the location of a file with the next message.

        Args:
            key: Key of the file.
            answered: Callback that receives the answer.
        """
        home = home_of(key, self._membership.live())
        if home == self.node:
            answered(self.records.ask(key, "", self.node, time.monotonic()))
            return
        self._asked(home, key, "").add_done_callback(lambda done: answered(done.result()))

    def hold(self, versions: Mapping[str, str]) -> None:
        """Tell the homes of files that this node has complete copies.

        Args:
            versions: Version of each file by key.
        """
        for home, keys in homes_of(versions, self._membership.live()).items():
            if home == self.node:
                for key in keys:
                    self.records.hold(key, versions[key], self.node)
                continue
            outgoing = self._to(home)
            for key in keys:
                outgoing.release.pop(key, None)
                outgoing.hold[key] = versions[key]

    def release(self, key: str) -> None:
        """Tell the home of a file that this node has no copy and makes none."""
        home = home_of(key, self._membership.live())
        if home == self.node:
            self.records.release(key, self.node)
            return
        outgoing = self._to(home)
        outgoing.hold.pop(key, None)
        outgoing.release[key] = None

    async def sole(self, keys: Iterable[str]) -> frozenset[str]:
        """Return the keys of those copies that no other node is known to have."""
        found: set[str] = set()
        for home, members in homes_of(keys, self._membership.live()).items():
            message = RecordsMessage(self.node, sole=tuple(members))
            # If the home does not answer, no other copy is known.
            answers: tuple[bool, ...] = (True,) * len(members)
            if home == self.node:
                answers = self.answer(message).sole
            elif self._client is not None:
                with suppress(PeerGoneError):
                    answers = (await self._client.tell(home, message)).sole
            found.update(key for key, is_sole in zip(members, answers, strict=False) if is_sole)
        return frozenset(found)

    async def beat(self) -> None:
        """Send a message to all other nodes every second, until cancelled.

        It carries the claims of this node that go on, and its news. If the set of live nodes
        changes, the records of nodes that are gone are dropped, and copies are announced to
        their new homes.
        """
        while self._client is not None:
            await asyncio.gather(*(self._beat(node) for node in self._membership.live()[:-1]))
            live = frozenset(self._membership.live())
            if live != self._live:
                for node in self._live - live:
                    self.records.forget(node)
                self._live = live
                # Files have new homes now, which have no records of them yet.
                for home in live:
                    self._announce(home)
            await asyncio.sleep(BEAT_SECONDS)

    async def _beat(self, node: str) -> None:
        outgoing = self._to(node)
        keep = homes_of(self._claimed(), self._membership.live()).get(node, [])
        is_heard = await self._tell(node, outgoing, keep)
        while is_heard and outgoing.is_full:
            is_heard = await self._tell(node, outgoing)

    def _learn(self, node: str, instance: str) -> None:
        if self._instances.get(node, instance) != instance:
            self._announce(node)
        self._instances[node] = instance

    def _announce(self, home: str) -> None:
        """Tell a home, which may be this node, about all copies that belong to it."""
        held, live = self._held(), self._membership.live()
        for key in homes_of(held, live).get(home, []):
            if home == self.node:
                self.records.hold(key, held[key], self.node)
            else:
                self._to(home).hold[key] = held[key]

    def _to(self, home: str) -> _Outgoing:
        return self._outgoing.setdefault(home, _Outgoing())

    def _asked(self, home: str, key: str, version: str) -> asyncio.Future[Location]:
        """Add a question to the next message to a home; return the future of its answer."""
        ask = self._to(home).ask
        if (key, version) not in ask:
            ask[key, version] = asyncio.get_running_loop().create_future()
        return ask[key, version]

    async def _hurry(self, home: str, outgoing: _Outgoing) -> None:
        try:
            while outgoing.is_urgent:
                await self._tell(home, outgoing)
        finally:
            outgoing.is_hurried = False

    async def _tell(self, home: str, outgoing: _Outgoing, keep: Iterable[str] = ()) -> bool:
        """Send the collected entries to a home; return whether it has answered."""
        assert self._client is not None
        async with outgoing.one_at_a_time:
            asked, hold = _some_of(outgoing.ask), _some_of(outgoing.hold)
            release = _some_of(outgoing.release)
            outgoing.is_urgent = bool(outgoing.ask)
            message = RecordsMessage(
                self.node,
                ask=tuple(asked),
                hold=tuple(hold.items()),
                keep=tuple(keep),
                release=tuple(release),
            )
            answers: tuple[Location, ...] = ()
            try:
                answer = await self._client.tell(home, message)
                answers = tuple(Location(*each) for each in answer.asked)
            except PeerGoneError:
                outgoing.put_back(hold, release)
                # Readers that have asked meanwhile must not wait, either.
                asked |= _some_of(outgoing.ask)
                outgoing.is_urgent = bool(outgoing.ask)
                return False
            finally:
                said_of_all = (*answers, *(_NOTHING,) * len(asked))
                for future, said in zip(asked.values(), said_of_all, strict=False):
                    if not future.done():
                        future.set_result(said)
            self._learn(home, answer.instance)
            return True


def _some_of(given: dict[_Key, _Value]) -> dict[_Key, _Value]:
    """Remove and return the first entries, as many as one message may contain."""
    taken = dict(list(given.items())[:_MOST])
    for key in taken:
        del given[key]
    return taken
