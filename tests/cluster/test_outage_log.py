# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What an operator's log says of an API server that is away."""

from __future__ import annotations

import logging

import pytest

from tf_malleable.cluster.kube.client import CallError
from tf_malleable.cluster.outage_log import OutageLog

GONE = CallError(0, "NoAnswer", "no route to host")


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def outage(clock):
    return OutageLog(logging.getLogger("test"), clock)


def test_an_outage_is_told_of_once_and_so_is_its_end(outage, clock, caplog):
    for _ in range(1000):
        outage.begin(GONE)
        clock.now += 0.3
    outage.end()
    outage.end()
    assert caplog.messages == [
        "the API server does not answer, trying again: no route to host",
        "the API server answers again, after 300 s",
    ]


def test_a_server_that_comes_and_goes_is_told_of_once_a_minute(outage, clock, caplog):
    for _ in range(119):
        outage.begin(GONE)
        clock.now += 0.5
        outage.end()
        clock.now += 0.5
    assert len(caplog.messages) == 4


def test_an_outage_after_another_one_is_told_of_if_it_lasts(outage, clock, caplog):
    outage.begin(GONE)
    outage.end()
    clock.now += 1
    outage.begin(GONE)
    assert len(caplog.messages) == 2
    clock.now += 60
    outage.begin(GONE)
    assert len(caplog.messages) == 3


@pytest.mark.parametrize(("code", "is_one"), [(0, True), (500, True), (503, True), (403, False)])
def test_refusals_are_no_outage(code, is_one):
    assert CallError(code, "x", "y").is_outage is is_one
