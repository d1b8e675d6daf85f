# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Requests take turns, and an owner's turns have a part of the loop's time."""

from __future__ import annotations

import asyncio
import time

import pytest

from tf_malleable.controller.http import pacing
from tf_malleable.controller.http.pacing import Pacing, measured
from tf_malleable.controller.requests.fair_turns import FairTurns


def test_another_owner_waits_for_one_request_and_not_for_all():
    order = []

    async def scenario():
        pacer = Pacing()

        async def ask(owner):
            await pacer.turn("reads", owner)
            order.append(owner)

        tasks = [asyncio.create_task(ask(owner)) for owner in [*["flood"] * 100, "calm"]]
        await asyncio.sleep(0)
        # It comes when all of these wait.
        await asyncio.gather(ask("late"), *tasks)

    asyncio.run(scenario())
    assert len(order) == 102
    assert order.index("calm") <= 2
    assert order.index("late") <= 5


def test_what_costs_much_waits_until_its_owner_is_within_its_part(monkeypatch):
    """The clock is the test's: a loop that is blocked by a request does nothing else."""

    async def scenario():
        loop, pacer, now = asyncio.get_running_loop(), Pacing(), [0.0]
        monkeypatch.setattr(loop, "time", lambda: now[0])
        delays = []
        monkeypatch.setattr(loop, "call_later", lambda seconds, *_: delays.append(seconds))
        await pacer.turn("reads", "costly")
        pacer.charge("reads", "costly", 1.0)
        second = asyncio.create_task(pacer.turn("reads", "costly"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        part, rate, burst = pacing._PACES["reads"]
        assert delays == [pytest.approx((1.0 + pacing._OVERHEAD) / part + (2 - burst) / rate)]
        assert not second.done()
        # Others have nothing to do with it, nor have other kinds of its requests.
        await pacer.turn("reads", "calm")
        await pacer.turn("agents", "costly")
        second.cancel()

    asyncio.run(scenario())


def test_who_hangs_up_is_passed_over():
    async def scenario():
        pacer = Pacing()
        tasks = [asyncio.create_task(pacer.turn("reads", "one")) for _ in range(50)]
        await asyncio.sleep(0)
        for task in tasks[1:-1]:
            task.cancel()
        await tasks[-1]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert pacer._waiting == {}

    asyncio.run(scenario())


def test_only_what_keeps_the_loop_busy_is_measured():
    costs = []

    async def work(fails):
        time.sleep(0.02)
        await asyncio.sleep(0.2)
        if fails:
            raise ValueError("as it should")
        return 7

    async def scenario():
        begin = time.monotonic()
        assert await measured(work(False), costs.append) == 7
        assert 0.02 <= sum(costs) < time.monotonic() - begin - 0.1
        with pytest.raises(ValueError, match="as it should"):
            await measured(work(True), costs.append)

        async def hang():  # A task takes nothing but what `async def` makes, since Python 3.12.
            await measured(work(False), costs.append)

        hanging = asyncio.create_task(hang())
        await asyncio.sleep(0)
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging

    asyncio.run(scenario())


def test_users_take_turns_at_what_is_done_one_at_a_time():
    order = []

    async def scenario():
        turns = FairTurns()

        async def work(user):
            await turns.acquire(user)
            try:
                order.append(user)
                await asyncio.sleep(0)
            finally:
                turns.release()

        tasks = [asyncio.create_task(work(user)) for user in "aaaaaabbc"]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.wait_for(work("d"), 10)

    asyncio.run(scenario())
    assert order == [*"aabcabaa", "d"]
