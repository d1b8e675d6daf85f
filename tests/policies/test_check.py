# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Allocations that cannot be carried out are found, with the reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tf_malleable.model import Allocation, Grant, Job, Machine, Shape
from tf_malleable.policies.check import InvalidAllocationError, check

JOBS = [Job("a", Shape(1, 1, 2), submitted=0.0), Job("b", Shape(2, 2, 3), submitted=0.0)]


def grant(used: set[int], lent: set[int] | None = None) -> Grant:
    return Grant(frozenset(used), frozenset(lent or ()))


@pytest.mark.parametrize(
    "grants",
    [
        {},
        {"a": grant(set())},
        {"a": grant({0}), "b": grant({1, 2})},
        {"a": grant(set(), {0, 1}), "b": grant({0, 1, 2})},
        {"a": grant({3}, {0}), "b": grant({0}, {1, 2})},
    ],
)
def test_allocations_that_can_be(grants):
    check(Allocation(grants), JOBS, Machine.flat(4))


@pytest.mark.parametrize(
    ("grants", "reason"),
    [
        ({"c": grant({0})}, "there is no job 'c'"),
        ({"a": grant({4})}, "job a gets CPUs 4, which do not exist"),
        ({"a": grant({0}, {5})}, "job a gets CPUs 5, which do not exist"),
        ({"a": grant({0, 1, 2})}, "job a gets 3 cores, outside 1 … 2"),
        ({"b": grant({0})}, "job b gets 1 cores, outside 2 … 3"),
        ({"a": grant({0}, {0, 1})}, "job a both uses and lends CPUs 0"),
        ({"a": grant({1}), "b": grant({1, 2})}, "CPU 1 is used by both job a and job b"),
        ({"a": grant(set(), {1}), "b": grant({2}, {1})}, "CPU 1 is lent by both job a and job b"),
    ],
)
def test_allocations_that_cannot_be(grants, reason):
    with pytest.raises(InvalidAllocationError) as invalid:
        check(Allocation(grants), JOBS, Machine.flat(4))
    assert str(invalid.value) == reason


PREEMPTS = replace(Machine.flat(4), preempts=True)


@pytest.mark.parametrize(
    "grants",
    [
        {"a": grant({0, 1}, {0, 1}), "b": grant({0, 1})},
        # The borrower lends on what it does not use.
        {"a": grant({0}, {0}), "b": grant({1}, {0}), "c": grant({0})},
    ],
)
def test_who_preempts_others_may_use_what_it_lends(grants):
    jobs = [*JOBS, Job("c", Shape(1, 1, 1), submitted=0)]
    check(Allocation(grants), jobs, PREEMPTS)


@pytest.mark.parametrize(
    ("grants", "reason"),
    [
        (
            {"a": grant({0}, {0}), "b": grant({0, 1}, {0})},
            "CPU 0 is shared by both job a and job b",
        ),
        ({"a": grant({0}), "b": grant({0, 1})}, "CPU 0 is used by both job a and job b"),
    ],
)
def test_of_two_jobs_on_a_cpu_one_must_lend_it(grants, reason):
    with pytest.raises(InvalidAllocationError) as invalid:
        check(Allocation(grants), JOBS, PREEMPTS)
    assert str(invalid.value) == reason


@pytest.mark.parametrize(
    ("grants", "reason"),
    [
        ({"a": grant({np.int64(1)})}, "job a gets CPU 1 of type int64, not int"),
        ({"a": grant(set(), {np.int64(1)})}, "job a gets CPU 1 of type int64, not int"),
        ({"a": grant({True})}, "job a gets CPU True of type bool, not int"),
        ({"a": grant({"1"})}, "job a gets CPU 1 of type str, not int"),
    ],
)
def test_cpus_are_python_integers(grants, reason):
    with pytest.raises(InvalidAllocationError) as invalid:
        check(Allocation(grants), JOBS, Machine.flat(4))
    assert str(invalid.value) == reason


@pytest.mark.parametrize("review_at", [None, 0, 12.5, np.float64(12.5)])
def test_times_of_the_next_review_that_can_be(review_at):
    check(Allocation({}, review_at), JOBS, Machine.flat(4))


@pytest.mark.parametrize("review_at", ["soon", float("nan"), float("inf"), 1j])
def test_times_of_the_next_review_that_cannot_be(review_at):
    with pytest.raises(InvalidAllocationError) as invalid:
        check(Allocation({}, review_at), JOBS, Machine.flat(4))
    assert str(invalid.value) == (
        f"review_at must be None or a finite number of seconds, not {review_at!r}"
    )
