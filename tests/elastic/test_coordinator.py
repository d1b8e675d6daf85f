# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The coordinator's own thread, without processes."""

from __future__ import annotations

import socket
import time
from itertools import count

import pytest

from tests.elastic.test_coordination import Game
from tests.support.deadline import DEADLINE
from tf_malleable.elastic.links import messages
from tf_malleable.elastic.membership.coordinator import SILENT_SECONDS, Coordinator


@pytest.fixture
def coordinator():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Coordinator(listener, b"secret", 4, first_seconds=0.0)
        yield made
        for each in made._connections.values():
            each.close()


@pytest.fixture
def game(coordinator):
    """Workers a and b, whose connections to the coordinator are 1 and 2; 3 and 4 are others'."""
    game = Game()
    for id_ in "ab":
        game.hello(id_)
    coordinator._core = game.core
    coordinator._ids, coordinator._latest = {1: "a", 2: "b"}, {"a": 1, "b": 2}
    ends = {number: socket.socketpair() for number in (1, 2, 3, 4)}
    coordinator._connections = {number: pair[0] for number, pair in ends.items()}
    game.ends = {number: pair[1] for number, pair in ends.items()}
    yield game
    for each in game.ends.values():
        each.close()


def test_who_asks_after_a_loss_sees_what_is_done_about_it(coordinator, game):
    coordinator._events.put(("closed", 1, {}))
    coordinator._events.put(("said", 3, {"kind": "status"}))
    coordinator.serve(coordinator._events.empty)
    status = messages.receive(game.ends[3], time.monotonic() + DEADLINE)
    assert [each["id"] for each in status["processes"]] == ["b"]
    assert status["phase"] == "halting"


def stalled_with(coordinator, game, come_back):
    """Serve after a stall in which worker a has hung up; return whether it counts as lost."""
    turns = count()
    lost_by = time.monotonic() + DEADLINE

    def stopping():
        turn = next(turns)
        if turn == 0:
            time.sleep(SILENT_SECONDS)
            coordinator._events.put(("closed", 1, {}))
        elif turn == 1:
            come_back()
        assert time.monotonic() < lost_by
        is_back = coordinator._latest.get("a") == 4 and turn > 3
        return is_back or "a" not in game.core.state.everybody

    coordinator.serve(stopping)
    return "a" not in game.core.state.everybody


@pytest.mark.slow
def test_who_hangs_up_during_a_stall_may_come_back(coordinator, game):
    hello = {**game.hello_of("a"), "generation": game.core.state.current.as_json()}
    assert not stalled_with(
        coordinator, game, lambda: coordinator._events.put(("said", 4, {"kind": "hello", **hello}))
    )


@pytest.mark.slow
def test_who_does_not_come_back_after_a_stall_is_lost(coordinator, game):
    assert stalled_with(coordinator, game, lambda: None)
