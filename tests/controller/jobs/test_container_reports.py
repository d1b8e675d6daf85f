# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the controller makes of an engine's reports about containers; there is no engine."""

from __future__ import annotations

import asyncio

from tests.support.fake_containers import FakeContainers, found
from tests.support.service import host


def test_one_that_somebody_else_starts_has_waited_until_then(state):
    async def scenario():
        engine = FakeContainers()
        async with host(state, "fcfs-strict", containers=engine) as here:
            await here.job(min=4, preferred=4)
            engine.observer.seen(found())
            _, waiting = here.engine.jobs()
            assert waiting.state == "waiting"
            await asyncio.sleep(0.1)
            engine.observer.seen(found(here.program().pid))
            job = here.status(waiting.id)
            assert job.state == "running"
            assert job.waiting_seconds >= 0.1 > job.run_seconds
            spans = here.engine.history(10, True).spans
            first = next(span for span in spans if span.job == job.id)
            assert (first.state, first.begin, first.end) == ("waiting", job.submitted, job.started)

    asyncio.run(scenario())
