# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Who decides how many workers there are: people, or whoever starts them."""

from __future__ import annotations

import pytest

from tests.elastic.test_coordination import Game
from tf_malleable.elastic.membership.status import WantedNumbers

TOLD = {"workers": 1, "least": 1, "most": 4, "servers": 0, "most_servers": 1}
DECIDING = {**TOLD, "can_decide": True, "by_hand": False}


@pytest.fixture
def wanted():
    found = WantedNumbers()
    found.supervise(1, DECIDING)
    return found


def test_whoever_starts_workers_decides_until_somebody_does(wanted):
    wanted.supervise(1, {**DECIDING, "workers": 2})
    assert wanted.as_json() == {"workers": 2, "servers": 0, "by_hand": False}
    assert wanted.change({"workers": 3}, 4) == ""
    # What was told before that was heard of.
    wanted.supervise(1, DECIDING)
    assert wanted.as_json() == {"workers": 3, "servers": 0, "by_hand": True}
    # One of them went.
    wanted.supervise(1, {**DECIDING, "workers": 2, "by_hand": True})
    assert wanted.as_json() == {"workers": 2, "servers": 0, "by_hand": True}
    assert wanted.change({"workers": None, "auto": True}, 4) == ""
    wanted.supervise(1, DECIDING)
    assert wanted.as_json() == {"workers": 1, "servers": 0, "by_hand": False}


def test_servers_say_nothing_about_workers(wanted):
    assert wanted.change({"servers": 1}, 4) == ""
    assert wanted.as_json() == {"workers": 1, "servers": 1, "by_hand": False}


def test_a_new_coordinator_learns_what_was_decided_by_hand():
    wanted = WantedNumbers()
    wanted.supervise(1, {**DECIDING, "workers": 3, "by_hand": True})
    assert wanted.as_json() == {"workers": 3, "servers": 0, "by_hand": True}


def test_nobody_decides_without_grants():
    wanted = WantedNumbers()
    assert "no supervisor starts workers" in wanted.change({"auto": True}, 4)
    wanted.supervise(1, TOLD)
    assert "no controller grants cores" in wanted.change({"auto": True}, 4)


def test_workers_that_leave_are_missing(wanted):
    game = Game()
    assert wanted.is_short(game.core.state)
    game.hello("a")
    assert not wanted.is_short(game.core.state)
    game.core.state.everybody["a"].leaving = True
    assert wanted.is_short(game.core.state)
    wanted.supervisors.clear()  # Nobody would start another one.
    assert not wanted.is_short(game.core.state)
