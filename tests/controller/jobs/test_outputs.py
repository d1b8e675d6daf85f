# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The path of a job's output is kept with it, and is nobody else's business."""

from __future__ import annotations

import asyncio

from tests.support.service import ME, host
from tf_malleable.controller.requests.callers import Sight
from tf_malleable.linux.processes.users import user_name

PATH = "/home/ada/secret.log"


def test_the_path_is_shown_to_its_owner_only_while_it_lives_and_afterwards(state):
    async def scenario():
        async with host(state) as here:
            job = await here.job(output=PATH)
            own, other = (
                Sight(everything=False, user=user, job=None)
                for user in (user_name(ME.uid), "somebody else")
            )
            status = here.status(job)
            assert (own.of(status).output, other.of(status).output) == (PATH, None)
            here.programs[0].end()
            await here.until(lambda: not here.service.jobs())
            (record,) = here.service.history(1, False).jobs
            assert (own.of_ended(record).output, other.of_ended(record).output) == (PATH, None)

    asyncio.run(scenario())
