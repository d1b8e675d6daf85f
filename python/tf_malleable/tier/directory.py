# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Asks each file's home where its copies are, and tells homes what this node has.

What is asked and told goes in one message to each home: the next one collects while the last one
is under way, so that thousands of small files do not take thousands of messages. A home that does
not answer is no reason to wait: the file is read from the source, as without peers.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from tf_malleable.tier.homes import home_of, homes_of
from tf_malleable.tier.membership import Membership
from tf_malleable.tier.node_client import NodeClient, PeerGoneError
from tf_malleable.tier.node_messages import RecordsAnswer, RecordsMessage
from tf_malleable.tier.records import Records, Whereto

BEAT_SECONDS: Final = 1.0
"""How often each other node is told that this one lives, and which claims go on."""
_MOST: Final = 2000
# What nobody waits for. Each message takes two daemons milliseconds.
_TOGETHER_SECONDS: Final = 2.0
_NOTHING: Final = Whereto(True)
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass
class _Outgoing:
    """What one home is to be told next."""

    ask: dict[tuple[str, str], asyncio.Future[Whereto]] = field(default_factory=dict)
    hold: dict[str, str] = field(default_factory=dict)
    release: dict[str, None] = field(default_factory=dict)
    is_sending: bool = False
    is_urgent: bool = False
    hurry: asyncio.Event = field(default_factory=asyncio.Event)


class Directory:
    """This node's own records as a home, and the way to those of others."""

    def __init__(
        self,
        membership: Membership,
        client: NodeClient | None,
        held: Callable[[], Mapping[str, str]],
        claimed: Callable[[], Iterable[str]],
    ) -> None:
        """Prepare; needs a running loop.

        Args:
            membership: The nodes.
            client: Asks them; None without other nodes.
            held: Returns the keys of all complete copies of this node, with their versions.
            claimed: Returns the keys of what this node reads from the source.
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
        """This node's name among the nodes."""
        return self._membership.node

    def answer(self, message: RecordsMessage) -> RecordsAnswer:
        """Answer what another node, or this one, says to this home."""
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

    async def ask(self, key: str, version: str) -> Whereto:
        """Return where this node gets a file; from the source if its home does not answer."""
        home = home_of(key, self._membership.live())
        if home == self.node:
            return self.records.ask(key, version, self.node, time.monotonic())
        outgoing = self._to(home)
        future = outgoing.ask.get((key, version))
        if future is None:
            future = asyncio.get_running_loop().create_future()
            outgoing.ask[key, version] = future
        outgoing.is_urgent = True
        self._send(home)
        outgoing.hurry.set()
        return await asyncio.shield(future)

    def ask_later(self, key: str, answered: Callable[[Whereto], None]) -> None:
        """Ask where a file is, with the next message, and tell what is answered."""
        home = home_of(key, self._membership.live())
        if home == self.node:
            answered(self.records.ask(key, "", self.node, time.monotonic()))
            return
        outgoing = self._to(home)
        future = outgoing.ask.get((key, ""))
        if future is None:
            future = asyncio.get_running_loop().create_future()
            outgoing.ask[key, ""] = future
        future.add_done_callback(lambda done: answered(done.result()))
        self._send(home)

    def hold(self, versions: Mapping[str, str]) -> None:
        """Tell the homes of files that this node has complete copies.

        Args:
            versions: Of each file, by its key.
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
            self._send(home)

    def release(self, key: str) -> None:
        """Tell the file's home that this node has no copy and makes none."""
        home = home_of(key, self._membership.live())
        if home == self.node:
            self.records.release(key, self.node)
            return
        outgoing = self._to(home)
        outgoing.hold.pop(key, None)
        outgoing.release[key] = None
        self._send(home)

    async def sole(self, keys: Iterable[str]) -> frozenset[str]:
        """Return those of these copies that no other node is known to have."""
        found: set[str] = set()
        for home, members in homes_of(keys, self._membership.live()).items():
            message = RecordsMessage(self.node, sole=tuple(members))
            # If it does not answer, nobody is known to have another one.
            answers: tuple[bool, ...] = (True,) * len(members)
            if home == self.node:
                answers = self.answer(message).sole
            elif self._client is not None:
                with suppress(PeerGoneError):
                    answers = (await self._client.tell(home, message)).sole
            found.update(key for key, is_sole in zip(members, answers, strict=False) if is_sole)
        return frozenset(found)

    async def beat(self) -> None:
        """Tell all other nodes again and again that this one lives, until cancelled."""
        while self._client is not None:
            await asyncio.gather(*(self._beat(node) for node in self._membership.live()[:-1]))
            live = frozenset(self._membership.live())
            if live != self._live:
                for node in self._live - live:
                    self.records.forget(node)
                self._live = live
                # Files have other homes now, which know nothing of them yet.
                for home in live:
                    self._announce(home)
            for home, outgoing in tuple(self._outgoing.items()):
                if (outgoing.hold or outgoing.release) and home in live:
                    self._send(home)
            await asyncio.sleep(BEAT_SECONDS)

    async def _beat(self, node: str) -> None:
        assert self._client is not None
        keep = homes_of(self._claimed(), self._membership.live()).get(node, [])
        with suppress(PeerGoneError):
            answer = await self._client.tell(node, RecordsMessage(self.node, keep=tuple(keep)))
            self._learn(node, answer.instance)

    def _learn(self, node: str, instance: str) -> None:
        if self._instances.get(node, instance) != instance:
            self._announce(node)
        self._instances[node] = instance

    def _announce(self, home: str) -> None:
        """Tell a home, or this node itself, of all copies whose home it is."""
        held, live = self._held(), self._membership.live()
        for key in homes_of(held, live).get(home, []):
            if home == self.node:
                self.records.hold(key, held[key], self.node)
            else:
                self._to(home).hold[key] = held[key]
        if home != self.node and self._to(home).hold:
            self._send(home)

    def _to(self, home: str) -> _Outgoing:
        return self._outgoing.setdefault(home, _Outgoing())

    def _send(self, home: str) -> None:
        outgoing = self._to(home)
        if outgoing.is_sending:
            return
        outgoing.is_sending = True
        task = asyncio.get_running_loop().create_task(self._sending(home, outgoing))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sending(self, home: str, outgoing: _Outgoing) -> None:
        assert self._client is not None
        try:
            while outgoing.ask or outgoing.hold or outgoing.release:
                if not outgoing.is_urgent:
                    # Nobody waits: let more come together.
                    outgoing.hurry.clear()
                    with suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(outgoing.hurry.wait(), _TOGETHER_SECONDS)
                outgoing.is_urgent = False
                asked, hold = _some_of(outgoing.ask), _some_of(outgoing.hold)
                release = _some_of(outgoing.release)
                message = RecordsMessage(
                    self.node, ask=tuple(asked), hold=tuple(hold.items()), release=tuple(release)
                )
                answers: tuple[Whereto, ...] = ()
                with suppress(PeerGoneError):
                    answer = await self._client.tell(home, message)
                    answers = tuple(Whereto(*each) for each in answer.asked)
                    self._learn(home, answer.instance)
                    hold, release = {}, {}
                said_of_all = (*answers, *(_NOTHING,) * len(asked))
                for future, said in zip(asked.values(), said_of_all, strict=False):
                    if not future.done():
                        future.set_result(said)
                if hold or release:  # With the next beat.
                    outgoing.hold = {**hold, **outgoing.hold}
                    outgoing.release = {**release, **outgoing.release}
                    return
        finally:
            outgoing.is_sending = False
            for future in outgoing.ask.values():
                if not future.done():
                    future.set_result(_NOTHING)
            outgoing.ask.clear()


def _some_of(given: dict[_Key, _Value]) -> dict[_Key, _Value]:
    """Take the first entries out, as many as one message may have."""
    taken = dict(list(given.items())[:_MOST])
    for key in taken:
        del given[key]
    return taken
