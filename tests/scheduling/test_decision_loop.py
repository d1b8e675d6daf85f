# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""When the decision loop of controller and simulator decides, and in what order it acts."""

from __future__ import annotations

import pytest

from tf_malleable.model import NO_GRANT, Allocation, Grant
from tf_malleable.scheduling.decision.decision_loop import DecisionLoop
from tf_malleable.scheduling.records.usage import SAMPLE_SECONDS
from tf_malleable.simulate.engine.clock import LAST, VirtualClock

ALL = Grant(frozenset({0, 1}))


class Machine:
    """Jobs of a machine, in virtual time; what the loop does to them is noted."""

    def __init__(self, *allocations):
        self.clock = VirtualClock()
        self.allocations = list(allocations)
        self.current = {"a": ALL, "b": NO_GRANT}
        self.decided, self.done = [], []
        self.on_change = lambda: None
        self.loop = DecisionLoop(self, self)

    def now(self):
        return self.clock.now

    def soon(self, call):
        return self.clock.at(self.clock.now, call, LAST)

    def at(self, when, call):
        return self.clock.at(when, call)

    def decide(self, now):
        self.decided.append(now)
        return self.allocations.pop(0) if self.allocations else Allocation(dict(self.current))

    def grants(self):
        return self.current, ()

    def carry_out(self, found, now):
        for change in found:
            self.done.append(change.job)
            self.current = {**self.current, change.job: change.grant}
            self.on_change()

    def run(self):
        while self.clock.step():
            pass


def test_one_decision_is_enough_for_all_events_of_a_moment():
    machine = Machine()
    for moment in (1.0, 1.0, 2.0):
        machine.clock.at(moment, machine.loop.request)
    machine.run()
    assert machine.decided == [1.0, 2.0]


def test_a_decision_made_now_answers_the_request_before_it():
    machine = Machine()
    machine.loop.request()
    machine.loop.react()
    machine.run()
    assert machine.decided == [0.0]


def test_cores_are_taken_before_they_are_given():
    machine = Machine(Allocation({"b": ALL}))
    machine.loop.react()
    assert machine.done == ["a", "b"]
    assert machine.current == {"a": NO_GRANT, "b": ALL}


@pytest.mark.parametrize(("asked", "made"), [(5.0, 5.0), (0.0, SAMPLE_SECONDS)])
def test_a_review_comes_when_it_was_asked_for_but_not_at_once(asked, made):
    machine = Machine(Allocation({"a": ALL}, asked))
    machine.loop.react()
    machine.run()
    assert machine.decided == [0.0, made]


def test_an_earlier_decision_replaces_the_review():
    machine = Machine(Allocation({"a": ALL}, 5.0), Allocation({"a": ALL}, 9.0))
    machine.loop.react()
    machine.clock.at(2.0, machine.loop.request)
    machine.run()
    assert machine.decided == [0.0, 2.0, 9.0]


def test_an_event_during_a_decision_leads_to_another_one():
    machine = Machine(Allocation({"b": ALL}))
    machine.on_change = machine.loop.request
    machine.loop.react()
    assert machine.loop.is_requested
    machine.run()
    assert machine.decided == [0.0, 0.0]


def test_a_closed_loop_decides_no_more():
    machine = Machine(Allocation({"a": ALL}, 5.0))
    machine.loop.react()
    machine.loop.request()
    machine.loop.close()
    machine.run()
    assert machine.decided == [0.0]
    assert not machine.loop.is_requested
