# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Jobs that start only if others succeed, where the kernel does not say how these ended."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.deadline import DEADLINE
from tests.support.service import host
from tf_malleable.linux.processes import pidfds


@pytest.mark.slow
@pytest.mark.parametrize("exit_text", ["0\n", "3\n", None])
def test_the_keeper_knows_where_the_kernel_does_not(state, tmp_path, monkeypatch, exit_text):
    # As before Linux 6.15, where the parent has waited for the process already.
    monkeypatch.setattr(pidfds, "process_exit", lambda process, pidfd: None)
    output = tmp_path / "one.log"

    async def scenario():
        async with host(state) as here:
            program = here.program()
            first = here.submit(program, output=str(output))
            second = here.submit(here.program(), "second", after_ok=[first])
            assert here.status(second).state == "waiting"
            if exit_text is not None:
                output.with_suffix(".exit").write_text(exit_text)
            program.end()
            if exit_text == "0\n":
                await here.until(lambda: here.status(second).state == "running")
                ended = here.service.history(10, False).jobs
                assert [(each.outcome, each.exit_code) for each in ended] == [("finished", 0)]
                return
            # Nobody knows that it has succeeded, or it has not.
            await here.until(lambda: len(here.service.history(10, False).jobs) == 2)
            ended = here.service.history(10, False).jobs[1]
            assert (ended.outcome, ended.cause) == ("cancelled", "job 1 did not succeed")

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE))
