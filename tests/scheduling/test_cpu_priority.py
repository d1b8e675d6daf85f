# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How much CPU time the kernel is to give each job where others compute on its CPUs, too."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.model import Grant
from tf_malleable.scheduling.decision.cpu_priority import STANDS_BACK, core_weight, weights

CPUSETS = st.frozensets(st.integers(0, 7))


def grant(cpus: set[int], lent: set[int] | None = None) -> Grant:
    return Grant(frozenset(cpus), frozenset(lent or ()))


def test_it_is_in_proportion_to_the_cores():
    found = weights({"one": grant({0}), "three": grant({1, 2, 3})})
    assert found["three"] == 3 * found["one"]


def test_a_lender_weighs_as_much_as_before():
    awake = weights({"owner": grant({0, 1})})
    asleep = weights({"owner": grant(set(), {0, 1}), "borrower": grant({0, 1})})
    assert asleep["owner"] == awake["owner"]


def test_who_has_only_borrowed_cores_stands_back():
    found = weights({"owner": grant(set(), {0, 1}), "borrower": grant({0, 1})})
    assert found["borrower"] == STANDS_BACK


def test_who_has_borrowed_and_own_cores_is_lighter_but_not_left_without():
    found = weights({"owner": grant(set(), {1}), "borrower": grant({0, 1})})
    assert STANDS_BACK < found["borrower"] <= found["owner"] / 5


def test_who_shares_its_cores_has_precedence_there():
    found = weights({"service": grant({0, 1}, {0, 1}), "a": grant({0}), "b": grant({1, 2})})
    assert (found["service"], found["a"]) == (2, STANDS_BACK)
    assert STANDS_BACK < found["b"] <= found["service"] / 5


def test_who_lends_on_what_another_goes_on_using_does_not_preempt_that_one():
    found = weights({"service": grant({0}, {0}), "asleep": grant(set(), {0}), "b": grant({0})})
    assert found == {"service": 1, "asleep": STANDS_BACK, "b": STANDS_BACK}


def test_a_job_without_cores_has_none():
    assert weights({"waits": grant(set())}) == {}


def test_a_lent_core_that_nobody_borrows_makes_no_difference():
    assert weights({"owner": grant({0}, {1}), "other": grant({2})}) == {"owner": 2, "other": 1}


@given(st.dictionaries(st.sampled_from("abcd"), st.tuples(CPUSETS, CPUSETS)))
def test_only_borrowers_weigh_less_than_their_cores(drawn):
    grants = {job: Grant(cpus - lent, lent) for job, (cpus, lent) in drawn.items()}
    lent = {cpu for each in grants.values() for cpu in each.lent}
    for job, weight in weights(grants).items():
        assert (weight < len(grants[job].own)) == bool(grants[job].cpus & lent)


def test_all_cores_together_never_exceed_what_the_kernel_takes():
    for cpus in (1, 2, 64, 1024):
        for most in (86.7, 100.0, 256.0):
            assert core_weight(most, cpus) * cpus > 0
            assert core_weight(most, cpus) * cpus <= most + 1e-9
