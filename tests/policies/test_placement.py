# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""CPUs change hands as little as possible; physical cores and NUMA nodes stay whole."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.policy_situations import Situation, situations
from tf_malleable.model import Cpu, Grant, Job, Machine, Shape
from tf_malleable.policies.shares.placement import Layout, place


def machine(cores: int, siblings: int = 1, nodes: int = 1) -> Machine:
    """CPUs are numbered as Linux does: siblings lie `cores` apart."""
    return Machine(
        tuple(
            Cpu(id=core + sibling * cores, core=core, node=core * nodes // cores)
            for sibling in range(siblings)
            for core in range(cores)
        )
    )


def job(name: str, *cpus: int, started: float = 0.0, lent: tuple[int, ...] = ()) -> Job:
    shape = Shape(1, 1, 64)
    if not cpus and not lent:
        return Job(name, shape, submitted=0.0)
    grant = Grant(frozenset(cpus), frozenset(lent))
    return Job(name, shape, submitted=0.0, state="running", started=started, grant=grant)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(situation=situations(), data=st.data())
def test_counts_are_met_and_nothing_moves_without_need(situation: Situation, data: st.DataObject):
    free = len(situation.machine.cpus)
    counts = {}
    for one in situation.jobs:
        counts[one.id] = data.draw(st.integers(0, free))
        free -= counts[one.id]
    placed = place(counts, situation.jobs, situation.machine)
    assert {name: len(cpus) for name, cpus in placed.items()} == {
        k: n for k, n in counts.items() if n
    }
    everything = Counter(cpu for cpus in placed.values() for cpu in cpus)
    assert set(everything.values()) <= {1}
    assert set(everything) <= situation.machine.cpuset
    if situation.settled:
        for one in situation.jobs:
            kept = placed.get(one.id, frozenset()) & one.grant.own
            assert len(kept) == min(len(one.grant.own), counts[one.id])


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.integers(1, 8), st.lists(st.integers(1, 7), max_size=8))
def test_no_core_is_split_between_jobs_while_there_are_enough(cores: int, counts: list[int]):
    on = machine(cores, siblings=2)
    jobs = [job(str(number)) for number in range(len(counts))]
    while sum(counts) > 2 * cores:
        counts = counts[:-1]
    placed = place({str(number): count for number, count in enumerate(counts)}, jobs, on)
    held = {name: Counter(cpu % cores for cpu in cpus) for name, cpus in placed.items()}
    for number, count in enumerate(counts):
        assert list(held[str(number)].values()).count(2) == count // 2
    if sum((count + 1) // 2 for count in counts) <= cores:
        users = Counter(core for of_job in held.values() for core in of_job)
        assert all(number == 1 for number in users.values())


def test_more_than_the_machine_is_refused():
    with pytest.raises(ValueError, match="cannot place 5 cores: the machine has 4"):
        place({"a": 2, "b": 3}, [job("a"), job("b")], machine(4))


def test_a_shrinking_job_gives_up_whole_cores():
    on = machine(2, siblings=2)
    assert place({"a": 2}, [job("a", 0, 1, 2, 3)], on) == {"a": {0, 2}}
    shrunk = Layout(on).shrunk
    assert shrunk(frozenset({0, 2, 1}), 1) == {1}
    assert shrunk(frozenset({0, 2, 1}), 2) == {0, 2}
    assert shrunk(frozenset({0, 2}), 0) == frozenset()
    assert shrunk(frozenset({0, 2}), 5) == {0, 2}


def test_a_shrinking_job_leaves_the_node_it_has_least_of():
    on = machine(8, nodes=2)
    assert place({"a": 3}, [job("a", 2, 3, 4, 5, 6)], on) == {"a": {4, 5, 6}}


def test_a_growing_job_completes_its_core_first():
    on = machine(4, siblings=2)
    placed = place({"a": 2, "b": 2}, [job("a", 1), job("b")], on)
    assert placed == {"a": {1, 5}, "b": {0, 4}}


def test_a_growing_job_stays_on_its_node():
    on = machine(8, nodes=2)
    assert place({"a": 4}, [job("a", 6)], on) == {"a": {4, 5, 6, 7}}


def test_a_new_job_goes_where_it_just_fits():
    on = machine(12, nodes=3)
    running = [job("a", 0, 1), job("b", 4)]
    placed = place({"a": 2, "b": 1, "c": 2, "d": 4}, [*running, job("c"), job("d")], on)
    assert placed["c"] == {2, 3}
    assert placed["d"] == {8, 9, 10, 11}


def test_a_job_larger_than_a_node_spans_as_few_as_possible():
    on = machine(12, nodes=3)
    placed = place({"a": 6, "b": 1}, [job("a"), job("b", 5)], on)
    assert len({cpu // 4 for cpu in placed["a"]}) == 2


def test_where_two_have_the_same_cpu_the_first_started_keeps_it():
    lender, borrower = job("lender", started=1.0, lent=(0, 1)), job("borrower", 0, 1, started=2.0)
    placed = place({"lender": 2, "borrower": 1}, [borrower, lender], machine(3))
    assert placed == {"lender": {0, 1}, "borrower": {2}}


def test_cpus_that_are_gone_are_replaced():
    assert place({"a": 2}, [job("a", 1, 9)], machine(3)) == {"a": {0, 1}}
