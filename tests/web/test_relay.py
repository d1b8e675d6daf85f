# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Viewers get everything, then every change; who does not read is left behind; gaps are kept."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import msgspec
import pytest
from aiohttp import web

from tests.support.deadline import DEADLINE
from tf_malleable.web.relay import Relay
from tf_malleable.web.series import Series


def job(identity, granted=(), used=None, **more):
    return {"id": identity, "state": "running", "granted": list(granted), "used_cpus": used, **more}


def raw(*jobs):
    return [msgspec.Raw(json.dumps(each).encode()) for each in jobs]


def test_sums_are_of_the_jobs_there_are_and_no_more_often_than_once_a_second():
    series = Series()
    for each in raw(job("1", (0, 1), 1.5), job("2", (2,)), {**job("3"), "state": "waiting"}):
        series.note(each)
    assert series.sample(10.0) == (10.0, 3, 1.5, 2, 1, None)
    assert series.sample(10.9) is None
    series.drop("1")
    for each in raw(job("2", (2, 3), 2.0, watts=20.25)):
        series.note(each)
    assert series.sample(11.0) == (11.0, 2, 2.0, 1, 1, 20.2)
    series.interrupt()
    assert series.columns()[0] == [10.0, 11.0, 11.5]
    assert series.columns()[1] == [3, 2, None]


class Scripted:
    """A controller that says what a test tells it to, to whoever follows its events."""

    def __init__(self, path) -> None:
        self.path = str(path)
        self.lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.followers = 0

    async def __aenter__(self):
        app = web.Application()
        app.router.add_get("/v1/events", self._events)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.UnixSite(self._runner, self.path).start()
        return self

    async def __aexit__(self, *_):
        self.lines.put_nowait(None)
        await self._runner.cleanup()

    async def _events(self, request):
        self.followers += 1
        answer = web.StreamResponse()
        await answer.prepare(request)
        while (line := await self.lines.get()) is not None:
            await answer.write(line)
        return answer

    def say(self, at, *jobs, whole=False, gone=(), info=None):
        line = {"at": at, "whole": whole, "info": info, "power": None, "jobs": jobs, "gone": gone}
        line["ended"] = 0
        self.lines.put_nowait(json.dumps(line).encode() + b"\n")


def run(scenario, tmp_path):
    async def wrapped():
        async with Scripted(tmp_path / "c.sock") as controller:
            connector = aiohttp.UnixConnector(path=controller.path, force_close=True)
            async with aiohttp.ClientSession(connector=connector) as session:
                relay = Relay(session, controller.path)
                running = asyncio.create_task(relay.run())
                try:
                    await asyncio.wait_for(scenario(controller, relay), DEADLINE)
                finally:
                    running.cancel()

    asyncio.run(wrapped())


async def heard(viewer, key):
    """Return the next message that has this."""
    while True:
        message = json.loads(await viewer.waiting.get())
        if key in message:
            return message


def test_many_viewers_are_one_reader_and_later_ones_get_everything(tmp_path):
    async def scenario(controller, relay):
        early = relay.open()
        assert (await heard(early, "down"))["since"] is None
        controller.say(1.0, job("1"), job("2"), whole=True, info={"policy": "equal"})
        assert [each["id"] for each in (await heard(early, "jobs"))["jobs"]] == ["1", "2"]
        controller.say(2.0, job("1", (0,)), gone=["2"])
        assert (await heard(early, "jobs"))["gone"] == ["2"]
        late = relay.open()
        everything = await heard(late, "jobs")
        assert everything["whole"]
        assert everything["info"] == {"policy": "equal"}
        assert everything["jobs"] == [job("1", (0,))]
        assert controller.followers == 1

    run(scenario, tmp_path)


@pytest.mark.slow
def test_while_nobody_answers_there_is_a_gap(tmp_path):
    async def scenario(controller, relay):
        viewer = relay.open()
        controller.say(1.0, job("1"), whole=True, info={})
        await heard(viewer, "sample")
        controller.lines.put_nowait(None)
        down = await heard(viewer, "down")
        assert "has ended the stream" in down["down"]
        assert down["since"] == 1.0
        controller.say(9.0, whole=True, info={})
        assert (await heard(viewer, "gap"))["gap"] == [1.0, 9.0]
        assert (await heard(viewer, "jobs"))["jobs"] == []
        late = relay.open()
        greeting = await heard(late, "series")
        assert greeting["gaps"] == [[1.0, 9.0]]
        assert greeting["series"][1] in ([0, None], [0, None, 0])

    run(scenario, tmp_path)


@pytest.mark.slow
def test_nonsense_is_said_and_not_passed_on(tmp_path):
    async def scenario(controller, relay):
        viewer = relay.open()
        await heard(viewer, "down")
        controller.lines.put_nowait(b"<html>\n")
        assert "is not a controller of this version" in (await heard(viewer, "down"))["down"]

    run(scenario, tmp_path)


def test_who_does_not_read_is_left_behind_and_nobody_else(tmp_path):
    async def scenario(controller, relay):
        deaf, other = relay.open(), relay.open()
        controller.say(1.0, job("1"), whole=True, info={})
        for number in range(200):
            controller.say(1.0 + number / 1000, job("1", range(number % 8)))
            await heard(other, "jobs")
        assert deaf.waiting.qsize() == 1
        assert await deaf.waiting.get() is None

    run(scenario, tmp_path)
