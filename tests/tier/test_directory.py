# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a node tells the homes of files, and when. The home is a fake that keeps what it hears."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from tests.support.deadline import DEADLINE
from tf_malleable.tier.node_messages import RecordsAnswer, RecordsMessage
from tf_malleable.tier.peers import directory
from tf_malleable.tier.peers.directory import Directory
from tf_malleable.tier.peers.membership import Membership
from tf_malleable.tier.peers.node_client import PeerGoneError
from tf_malleable.tier.peers.rendezvous_hash import home_of
from tf_malleable.tier.settings import NodeAddress

ME, OTHER = "127.0.0.1:1", "127.0.0.1:2"
KEYS = [
    key
    for key in (f"public/data/{number}" for number in range(12_000))
    if home_of(key, (ME, OTHER)) == OTHER
]


class FakeHome:
    """The home of KEYS.

    Attributes:
        heard: All messages.
        misses: To so many more messages it does not answer.
        answers: Is set if it may answer.
    """

    def __init__(self) -> None:
        self.heard: list[RecordsMessage] = []
        self.misses = 0
        self.answers = asyncio.Event()
        self.answers.set()

    async def tell(self, node: str, message: RecordsMessage) -> RecordsAnswer:
        assert node == OTHER
        self.heard.append(message)
        await self.answers.wait()
        if self.misses:
            self.misses -= 1
            raise PeerGoneError("no answer in time")
        return RecordsAnswer("it", tuple((False, ("another",), True) for _ in message.ask))

    @property
    def held(self) -> list[str]:
        return [key for message in self.heard for key, _ in message.hold]


def run(
    act: Callable[[Directory], Awaitable[None]],
    home: FakeHome,
    claimed: tuple[str, ...] = (),
    beats: bool = True,
) -> None:
    """Do something with a directory that beats."""

    async def main() -> None:
        membership = Membership(ME, (NodeAddress("127.0.0.1", 2),), None, lambda node: True)
        made = Directory(membership, home, dict, lambda: claimed)  # type: ignore[arg-type]
        task = asyncio.create_task(made.beat() if beats else asyncio.sleep(60))
        try:
            await act(made)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    asyncio.run(asyncio.wait_for(main(), DEADLINE))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.002)


@pytest.fixture(autouse=True)
def short_beats(monkeypatch):
    monkeypatch.setattr(directory, "BEAT_SECONDS", 0.05)


def test_what_nobody_waits_for_goes_with_the_next_beat():
    home, answers = FakeHome(), []

    async def act(made: Directory) -> None:
        await until(lambda: len(home.heard) == 2)
        del home.heard[:]
        made.hold({KEYS[0]: "1", KEYS[1]: "2"})
        made.release(KEYS[2])
        made.ask_later(KEYS[3], answers.append)
        await until(lambda: len(home.heard) == 2)

    run(act, home, claimed=(KEYS[4],))
    first, second = home.heard
    assert (first.hold, first.release) == (((KEYS[0], "1"), (KEYS[1], "2")), (KEYS[2],))
    assert (first.ask, first.keep) == (((KEYS[3], ""),), (KEYS[4],))
    assert second == RecordsMessage(ME, keep=(KEYS[4],))
    assert [(each.is_yours, each.holders) for each in answers] == [(False, ("another",))]


def test_what_somebody_waits_for_goes_at_once_with_what_has_collected():
    home = FakeHome()

    async def act(made: Directory) -> None:
        made.hold({KEYS[0]: "1"})
        assert not (await made.ask(KEYS[1], "")).is_yours

    run(act, home, beats=False)
    (message,) = home.heard
    assert (message.hold, message.ask) == (((KEYS[0], "1"),), ((KEYS[1], ""),))


def test_questions_that_come_meanwhile_go_together():
    home = FakeHome()

    async def act(made: Directory) -> None:
        home.answers.clear()
        tasks = [asyncio.create_task(made.ask(KEYS[0], ""))]
        await until(lambda: len(home.heard) == 1)
        tasks += [asyncio.create_task(made.ask(key, "")) for key in KEYS[1:500]]
        await asyncio.sleep(0)
        home.answers.set()
        assert not any(where.is_yours for where in await asyncio.gather(*tasks))

    run(act, home, beats=False)
    assert [len(message.ask) for message in home.heard] == [1, 499]


def test_nobody_waits_for_a_home_that_does_not_answer():
    home = FakeHome()
    home.misses = 1

    async def act(made: Directory) -> None:
        home.answers.clear()
        tasks = [asyncio.create_task(made.ask(KEYS[0], ""))]
        await until(lambda: len(home.heard) == 1)
        tasks.append(asyncio.create_task(made.ask(KEYS[1], "")))
        await asyncio.sleep(0)
        home.answers.set()
        assert all(where.is_yours for where in await asyncio.gather(*tasks))

    run(act, home, beats=False)
    assert len(home.heard) == 1


def test_what_a_home_has_not_heard_is_told_again_unless_it_has_changed():
    home = FakeHome()

    async def act(made: Directory) -> None:
        made.hold({KEYS[0]: "1", KEYS[1]: "1"})
        made.release(KEYS[2])
        home.misses = 1
        home.answers.clear()
        asked = asyncio.create_task(made.ask(KEYS[3], ""))
        await until(lambda: len(home.heard) == 1)
        made.release(KEYS[0])
        made.hold({KEYS[2]: "2"})
        home.answers.set()
        assert (await asked).is_yours
        assert not (await made.ask(KEYS[3], "")).is_yours

    run(act, home, beats=False)
    _, again = home.heard
    assert dict(again.hold) == {KEYS[1]: "1", KEYS[2]: "2"}
    assert again.release == (KEYS[0],)


def test_thousands_of_files_go_in_several_messages_of_one_beat(monkeypatch):
    monkeypatch.setattr(directory, "BEAT_SECONDS", 60.0)
    home, many = FakeHome(), KEYS[:5000]

    async def act(made: Directory) -> None:
        made.hold(dict.fromkeys(many, "1"))
        await until(lambda: len(home.held) == 4000)

    run(act, home)
    assert [len(message.hold) for message in home.heard] == [2000, 2000]
    assert home.held == many[:4000]  # The rest with the next beat.
