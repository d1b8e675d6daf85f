# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""From an allocation to the changes that carry it out, in an order that is safe."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.model import NO_GRANT, Allocation, Grant
from tf_malleable.scheduling.decision.decision import Change, changes

JOBS = ("a", "b", "c", "d")


def grant(*cpus: int) -> Grant:
    return Grant(frozenset(cpus))


@st.composite
def shared_out(draw):
    """Return disjoint grants of eight CPUs to some of the jobs."""
    owners = draw(st.lists(st.sampled_from([*JOBS, None]), min_size=8, max_size=8))
    cpus = {job: frozenset(c for c, owner in enumerate(owners) if owner == job) for job in JOBS}
    return {job: Grant(own) for job, own in cpus.items() if own}


def test_only_what_differs_changes():
    current = {"a": grant(0), "b": grant(1), "c": NO_GRANT}
    found = changes(Allocation({"a": grant(0), "c": grant(2)}), current)
    assert found == [Change("b", NO_GRANT), Change("c", grant(2))]


def test_a_job_without_cores_that_goes_on_is_told_again():
    allocation = Allocation({})
    assert changes(allocation, {"a": NO_GRANT}) == []
    assert changes(allocation, {"a": NO_GRANT}, {"a"}) == [Change("a", NO_GRANT)]
    # Cores that it is to have tell it as well.
    assert changes(Allocation({"a": grant(0)}), {"a": grant(0)}, {"a"}) == []


@given(before=shared_out(), after=shared_out())
def test_carried_out_in_order_they_end_in_the_allocation(before, after):
    current = {job: before.get(job, NO_GRANT) for job in JOBS}
    found = changes(Allocation(after), current)
    now = current | {change.job: change.grant for change in found}
    assert now == {job: after.get(job, NO_GRANT) for job in JOBS}
    assert len(found) == sum(current[job] != after.get(job, NO_GRANT) for job in JOBS)


@given(before=shared_out(), after=shared_out())
def test_those_that_only_lose_come_before_those_that_gain(before, after):
    current = {job: before.get(job, NO_GRANT) for job in JOBS}
    gains = [len(c.grant.cpus - current[c.job].cpus) for c in changes(Allocation(after), current)]
    assert gains == sorted(gains)
