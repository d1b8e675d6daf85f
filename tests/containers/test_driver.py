# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How a container is brought into its wanted state by an engine that refuses."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable

from tests.support.fake_engine import FakeEngine
from tf_malleable.api.schema.messages import ContainerInfo
from tf_malleable.containers.driver import Driver
from tf_malleable.containers.engine import EngineRefusedError, NoSuchContainerError
from tf_malleable.linux.cgroups import cgroup_files


async def at_once(function: Callable[[], None]) -> None:
    function()


def freeze_twice(engine: FakeEngine, refused: Callable[[], None]) -> None:
    """Tell a container twice to be frozen, with one CPU for when it goes on."""

    async def scenario():
        info = ContainerInfo("c" * 64, "training", "image")
        driver = Driver(engine, info, at_once, changed=lambda: None, refused=refused)
        for _ in range(2):
            driver.carry_out(frozenset({0}), frozen=True)
            await driver.done()

    asyncio.run(scenario())


def test_cpus_that_cannot_be_written_are_tried_again_and_it_is_frozen(monkeypatch, caplog):
    written = []

    def write(pid: int, **limits: object) -> None:
        written.append(pid)
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(cgroup_files, "write", write)
    engine = FakeEngine(pid=4321)
    engine.failures["update"] = NoSuchContainerError("not found")  # As Podman 4 says.
    freeze_twice(engine, refused=lambda: None)
    assert written == [4321, 4321]
    assert engine.calls == ["update", "pause", "update"]
    # The log is not filled with what is tried every second.
    said = [record.getMessage() for record in caplog.records]
    assert said == ["container training: cannot change its CPUs: Permission denied"]


def test_a_refusal_is_tried_again_even_if_the_engine_does_not_say_more(caplog):
    def refused() -> None:
        raise EngineRefusedError("internal error")

    engine = FakeEngine()
    engine.failures["update"] = EngineRefusedError("no such CPU")
    freeze_twice(engine, refused)
    assert engine.calls == ["update", "update"]
    assert [record.getMessage() for record in caplog.records] == ["container training: no such CPU"]
