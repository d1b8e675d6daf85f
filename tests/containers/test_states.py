# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the engines' words for a container's state mean; there is no engine."""

from __future__ import annotations

import pytest

from tests.support.fake_engine import FakeEngine
from tf_malleable.containers.engine import found, was_never_started


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
