# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the engines' words for a container's state mean; there is no engine."""

from __future__ import annotations

import gc
import os

import pytest

from tests.support.fake_engine import FakeEngine
from tf_malleable.containers.engine import Engine, EngineGoneError, found, was_never_started


@pytest.mark.parametrize("status", ["created", "configured", "initialized"])
def test_one_that_was_never_started(status):
    engine = FakeEngine()
    engine.state.update(Status=status, Running=False, Pid=0)
    assert was_never_started(engine.state)
    assert found(engine.inspect("c" * 64)).state == "created"
    # It could not be started, so it never will be.
    engine.state.update(Error="no such program", ExitCode=127)
    assert was_never_started(engine.state)
    assert found(engine.inspect("c" * 64)).exit_code == 127


@pytest.mark.parametrize("status", ["running", "paused", "exited", "dead", "removing"])
def test_one_that_was(status):
    assert not was_never_started({**FakeEngine().state, "Status": status})


@pytest.mark.parametrize("killed", [True, False])
def test_one_that_was_killed_for_lack_of_memory(killed):
    engine = FakeEngine()
    engine.state.update(Status="exited", Running=False, Pid=0, ExitCode=137, OOMKilled=killed)
    assert found(engine.inspect("c" * 64)).out_of_memory is killed


def test_knocking_at_a_socket_where_no_engine_listens_leaves_no_descriptors(tmp_path):
    engine = Engine(f"unix://{tmp_path}/docker.sock")
    # Not even until garbage is collected.
    gc.disable()
    try:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            with pytest.raises(EngineGoneError, match="no container engine answers at unix:///"):
                engine.list_ids()
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        gc.enable()
