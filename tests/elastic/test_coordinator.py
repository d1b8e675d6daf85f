# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The coordinator's own thread, without processes."""

from __future__ import annotations

import socket
import time

import pytest

from tests.elastic.test_coordination import Game
from tf_malleable.elastic.links import messages
from tf_malleable.elastic.membership.coordinator import Coordinator


@pytest.fixture
def coordinator():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Coordinator(listener, b"secret", 4, first_seconds=0.0)
        yield made
        for each in made._connections.values():
            each.close()


def test_who_asks_after_a_loss_sees_what_is_done_about_it(coordinator):
    game = Game()
    for id_ in "ab":
        game.hello(id_)
    coordinator._core = game.core
    coordinator._ids, coordinator._latest = {1: "a", 2: "b"}, {"a": 1, "b": 2}
    ends = {number: socket.socketpair() for number in (1, 2, 3)}
    coordinator._connections = {number: pair[0] for number, pair in ends.items()}
    coordinator._events.put(("closed", 1, {}))
    coordinator._events.put(("said", 3, {"kind": "status"}))
    with ends[3][1] as asking:
        coordinator.serve(coordinator._events.empty)
        status = messages.receive(asking, time.monotonic() + 5)
    assert [each["id"] for each in status["processes"]] == ["b"]
    assert status["phase"] == "halting"
    for number in (1, 2):
        ends[number][1].close()
