# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Cgroups are removed once they are empty, and those of live jobs are left alone."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cgroup_probe import skip_without
from tests.support.deadline import DEADLINE
from tests.support.service import host
from tf_malleable.api.schema.requests import Submission
from tf_malleable.controller.clock import until_next
from tf_malleable.controller.processes import cgroup_removal
from tf_malleable.linux.cgroups.job_cgroup import JobGroup


class Group(JobGroup):
    """A cgroup that is empty from its n-th attempt on."""

    def __init__(self, name: str, empty_at: float = 1, during: Callable[[], None] | None = None):
        super().__init__(Path(name), unified=True)
        self.empty_at, self.during, self.attempts = empty_at, during, 0

    def remove(self) -> bool:
        self.attempts += 1
        if self.during is not None:
            self.during()
        return self.attempts >= self.empty_at


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(cgroup_removal, "_KILLED_SECONDS", 0.01)


async def until(true: Callable[[], bool]) -> None:
    async def wait():
        while not true():
            await asyncio.sleep(0.005)

    await asyncio.wait_for(wait(), DEADLINE)


def test_one_that_is_empty_is_tried_once(soon):
    async def scenario():
        groups = cgroup_removal.Emptying()
        groups.add(first := Group("a"))
        await until(lambda: first.attempts == 1)
        groups.add(second := Group("b"))
        await until(lambda: second.attempts == 1)
        assert first.attempts == 1

    asyncio.run(scenario())


def test_one_whose_processes_are_being_killed_is_tried_again_by_itself(soon):
    async def scenario():
        groups = cgroup_removal.Emptying()
        groups.add(group := Group("a", empty_at=2))
        await until(lambda: group.attempts == 2)

    asyncio.run(scenario())


def test_one_that_stays_crowded_is_tried_with_the_next(soon):
    async def scenario():
        groups = cgroup_removal.Emptying()
        groups.add(crowded := Group("a", empty_at=4))
        await until(lambda: crowded.attempts == 2)
        await asyncio.sleep(0.1)
        assert crowded.attempts == 2
        groups.add(Group("b"))
        await until(lambda: crowded.attempts == 3)
        groups.close()
        assert crowded.attempts == 4

    asyncio.run(scenario())


def test_none_is_tried_after_the_end(soon):
    async def scenario():
        groups = cgroup_removal.Emptying()
        groups.add(crowded := Group("a", empty_at=9))
        await until(lambda: crowded.attempts == 1)
        groups.close()
        groups.add(late := Group("b", empty_at=9))
        await asyncio.sleep(0.1)
        assert (crowded.attempts, late.attempts) == (2, 0)

    asyncio.run(scenario())


def test_an_attempt_ends_with_its_loop(soon, caplog):
    """What is said of a task that failed unseen is said wherever its garbage is collected."""

    async def scenario():
        groups = cgroup_removal.Emptying()
        attempts: list[float] = []

        def last_a_while() -> None:
            attempts.append(time.monotonic())
            if len(attempts) == 1:
                time.sleep(0.1)

        # The loop waits for the first attempt, and the timer of the next one goes on.
        groups.add(Group("a", during=last_a_while))
        await until(lambda: bool(attempts))
        groups.add(Group("b"))
        groups.close()

    asyncio.run(scenario())
    gc.collect()
    assert caplog.messages == []


def test_one_that_has_a_job_now_is_left_alone(soon):
    async def scenario():
        groups = cgroup_removal.Emptying()
        groups.add(kept := Group("a", empty_at=9))
        groups.keep(kept)
        # Also if it is kept during an attempt.
        groups.add(late := Group("b", empty_at=9, during=lambda: groups.keep(late)))
        await until(lambda: late.attempts == 1)
        groups.add(other := Group("c"))
        await until(lambda: other.attempts == 1)
        groups.close()
        assert (kept.attempts, late.attempts) == (0, 1)

    asyncio.run(scenario())


def test_the_cgroup_of_a_job_is_not_tried_before_its_end(soon, tmp_path, monkeypatch):
    tried: list[Path] = []
    remove = JobGroup.remove

    def note(self: JobGroup) -> bool:
        tried.append(self.folder)
        return remove(self)

    monkeypatch.setattr(JobGroup, "remove", note)

    async def scenario():
        async with host(tmp_path / "controller.db") as here:
            program = here.program()
            job, _ = await here.service.submit_soon(program.peer, Submission(name="a"))
            group = here.service._roster.live[job.id].processes.group
            if group is None:
                skip_without("freezer")
            await asyncio.sleep(0.1)
            # The controller tries those of others that have ended.
            assert group.folder not in tried
            program.end()
            await until(lambda: group.folder in tried)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("now", "seconds"), [(7.0, 0.5), (7.1, 0.4), (7.3, 0.2), (7.4, 0.6), (7.4999, 0.5001)]
)
def test_what_is_done_now_and_then_is_done_together(monkeypatch, now, seconds):
    monkeypatch.setattr("time.monotonic", lambda: now)
    assert until_next(0.5) == pytest.approx(seconds)
