# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which waiting jobs may start, given memory, GPUs and a limit on their number."""

from __future__ import annotations

import pytest

from tests.support.policy_situations import SPECS
from tf_malleable.model import Grant, Job, Machine, Shape
from tf_malleable.model.need import UNLIMITED, Need, Supply
from tf_malleable.model.quota import NO_QUOTAS, Quota, Quotas
from tf_malleable.policies import registry
from tf_malleable.scheduling.decision.admission_order import Starts, decide
from tf_malleable.scheduling.decision.decision import Candidate

NOW = 1000.0
G = float(1 << 30)


def waits(
    name: str,
    since: float = 990.0,
    priority: int = 0,
    by_hand: int | None = None,
    user: int | None = None,
) -> Candidate:
    return Candidate(Job(name, Shape(1, 1, 1), since, priority, user=user), by_hand, False)


def runs(name: str, cpu: int = 0, user: int | None = None) -> Candidate:
    grant = Grant(frozenset({cpu}))
    job = Job(
        name,
        Shape(1, 1, 1),
        900.0,
        state="running",
        since=900.0,
        started=900.0,
        grant=grant,
        user=user,
    )
    return Candidate(job, None, False)


def decided(
    candidates: list[Candidate],
    needs: dict[str, Need],
    supply: Supply,
    spec: str = "equal",
    cpus: int = 8,
    quotas: Quotas = NO_QUOTAS,
) -> Starts:
    policy = registry.create(spec)
    return decide(policy, candidates, needs.__getitem__, supply, Machine.flat(cpus), NOW, quotas)


def granted(found: Starts) -> set[str]:
    return {job for job, grant in found.allocation.grants.items() if grant}


def test_jobs_start_only_as_far_as_their_memory_fits_together():
    needs = {name: Need(4 * G, "declared") for name in "abc"}
    found = decided([waits("a"), waits("b", 991.0), waits("c", 992.0)], needs, Supply(10 * G))
    assert granted(found) == {"a", "b"}
    assert found.lacks == {"c": "memory"}
    # Nothing tells when other programs release memory.
    assert found.allocation.review_at == NOW + 1


def test_without_limits_all_start_and_nothing_is_reviewed():
    needs = {name: Need(4 * G, "declared") for name in "abc"}
    found = decided([waits(name) for name in "abc"], needs, UNLIMITED)
    assert granted(found) == {"a", "b", "c"}
    assert (found.lacks, found.allocation.review_at) == ({}, None)


def test_what_running_jobs_will_yet_use_is_not_free():
    needs = {"r": Need(4 * G, "learned", 1 * G), "a": Need(4 * G, "declared")}
    jobs = [runs("r"), waits("a")]
    assert granted(decided(jobs, needs, Supply(6 * G))) == {"r"}
    # What it uses already is not available any more, and is not counted twice.
    needs["r"] = Need(4 * G, "learned", 4 * G)
    assert granted(decided(jobs, needs, Supply(6 * G))) == {"r", "a"}


@pytest.mark.parametrize(
    ("basis", "starts"), [("declared", False), ("learned", True), ("unknown", True)]
)
def test_an_estimate_keeps_no_job_waiting_if_it_would_be_alone(basis, starts):
    found = decided([waits("a")], {"a": Need(4 * G, basis)}, Supply(1 * G, strained=True))
    assert granted(found) == ({"a"} if starts else set())


def test_while_processes_wait_for_memory_no_job_of_unknown_need_joins_others():
    needs = {"r": Need(), "a": Need(G, "unknown"), "b": Need(G, "learned")}
    jobs = [runs("r"), waits("a"), waits("b")]
    found = decided(jobs, needs, Supply(8 * G, strained=True))
    assert granted(found) == {"r", "b"}
    assert found.lacks == {"a": "memory"}
    assert granted(decided(jobs, needs, Supply(8 * G))) == {"r", "a", "b"}


def test_gpus_are_not_shared():
    needs = {"r": Need(gpus=1), "a": Need(gpus=2), "b": Need(gpus=1), "c": Need()}
    jobs = [runs("r"), waits("a"), waits("b", 991.0), waits("c", 992.0)]
    found = decided(jobs, needs, Supply(gpus=2))
    assert granted(found) == {"r", "b", "c"}
    assert found.lacks == {"a": "gpus"}


def test_no_more_jobs_run_than_may():
    needs = {name: Need() for name in "rabc"}
    jobs = [runs("r"), waits("a"), waits("b", 991.0, priority=1), waits("c", 992.0)]
    found = decided(jobs, needs, Supply(most_jobs=2))
    assert granted(found) == {"r", "b"}
    assert found.lacks == {"a": "jobs", "c": "jobs"}


def test_running_jobs_are_never_held_back():
    needs = {"r": Need(9 * G, "learned", 9 * G, gpus=3), "s": Need(), "a": Need()}
    jobs = [runs("r"), runs("s", 1), waits("a")]
    assert granted(decided(jobs, needs, Supply(-G, True, 1, 1))) == {"r", "s"}


def test_cores_set_by_hand_do_not_help():
    jobs = [runs("r"), waits("a", by_hand=2)]
    assert granted(decided(jobs, {"r": Need(), "a": Need()}, Supply(most_jobs=1))) == {"r"}


def test_a_large_job_is_not_held_up_by_small_ones_for_ever():
    needs = {"r": Need(4 * G, "learned", 4 * G), "big": Need(6 * G, "declared"), "s": Need(G)}
    patient = [runs("r"), waits("big", NOW - 301), waits("s", NOW - 1)]
    assert granted(decided(patient, needs, Supply(4 * G))) == {"r"}
    recent = [runs("r"), waits("big", NOW - 299), waits("s", NOW - 1)]
    assert granted(decided(recent, needs, Supply(4 * G))) == {"r", "s"}


def test_a_job_that_other_programs_keep_waiting_keeps_nobody_waiting():
    needs = {"r": Need(4 * G, "learned", 4 * G), "big": Need(9 * G, "declared"), "s": Need(G)}
    jobs = [runs("r"), waits("big", NOW - 301), waits("s", NOW - 1)]
    found = decided(jobs, needs, Supply(4 * G))
    assert granted(found) == {"r", "s"}
    assert found.lacks == {"big": "memory"}


def test_needs_are_looked_up_only_if_a_job_could_start():
    full = [runs("a"), runs("b", 1), waits("c")]
    assert granted(decided(full, {}, Supply(G), cpus=2)) == {"a", "b"}


@pytest.mark.parametrize("spec", SPECS)
def test_every_policy_is_held_to_it(spec):
    names = [str(number) for number in range(12)]
    needs = {name: Need(2 * G, "declared", gpus=int(name) % 2) for name in names}
    jobs = [waits(name, 900.0 + int(name), priority=int(name) % 3) for name in names]
    supply = Supply(9 * G, gpus=2, most_jobs=3)
    found = decided(jobs, needs, supply, spec)
    begun = granted(found)
    assert 1 <= len(begun) <= 3
    assert sum(needs[name].mem for name in begun) <= 9 * G
    assert sum(needs[name].gpus for name in begun) <= 2
    assert not begun & found.lacks.keys()


@pytest.mark.parametrize("supply", [Supply(100 * G, gpus=8), Supply(gpus=8)])
def test_a_user_s_jobs_start_only_as_far_as_the_quotas_of_memory_and_gpus_allow(supply):
    quotas = Quotas(Quota(max_mem=8 << 30, max_gpus=2))
    needs = {name: Need(4 * G, "declared") for name in "abc"} | {"x": Need(4 * G, "declared")}
    jobs = [waits("a", user=1), waits("b", 991.0, user=1), waits("c", 992.0, user=1)]
    found = decided([*jobs, waits("x", 993.0, user=2)], needs, supply, quotas=quotas)
    assert granted(found) == {"a", "b", "x"}
    assert found.lacks == {"c": "memory quota"}
    # The user's own jobs only make room.
    assert found.allocation.review_at is None
    needs = {name: Need(gpus=1) for name in "abcx"}
    found = decided([*jobs, waits("x", 993.0, user=2)], needs, supply, quotas=quotas)
    assert granted(found) == {"a", "b", "x"}
    assert found.lacks == {"c": "gpu quota"}


def test_what_started_jobs_have_counts_towards_their_user_s_quota():
    quotas = Quotas(Quota(max_mem=8 << 30, max_gpus=1))
    jobs = [runs("r", user=1), waits("a", user=1), waits("x", 991.0, user=2)]
    few = Need(G, "declared")
    for had, lack in (
        (Need(8 * G, "declared", G), "memory quota"),
        (Need(G, "unknown", 8 * G), "memory quota"),
        (Need(G, "declared", gpus=1), None),
    ):
        found = decided(jobs, {"r": had, "a": few, "x": few}, Supply(64 * G, gpus=4), quotas=quotas)
        assert found.lacks == ({"a": lack} if lack else {})


def test_an_estimate_keeps_no_job_waiting_if_its_user_has_no_other():
    quotas = Quotas(Quota(max_mem=1 << 30))
    for basis, starts in (("declared", False), ("learned", True), ("unknown", True)):
        needs = {"r": Need(), "a": Need(4 * G, basis)}
        found = decided([runs("r", user=2), waits("a", user=1)], needs, UNLIMITED, quotas=quotas)
        assert ("a" in granted(found)) is starts


def test_who_waits_for_the_own_quota_is_overtaken_by_others_however_long_it_has_waited():
    quotas = Quotas(Quota(max_mem=8 << 30, max_gpus=2))
    needs = {
        "r": Need(4 * G, "declared", gpus=1),
        "a": Need(8 * G, "declared", gpus=2),
        "b": Need(4 * G, "declared", gpus=1),
        "x": Need(4 * G, "declared", gpus=1),
    }
    jobs = [
        runs("r", user=1),
        waits("a", 0.0, user=1),
        waits("b", 1.0, user=1),
        waits("x", 2.0, user=2),
    ]
    found = decided(jobs, needs, Supply(64 * G, gpus=8), quotas=quotas)
    assert granted(found) == {"r", "x"}
    # Its user's later jobs leave it the room, as those of all users do if the machine has none.
    assert found.lacks.keys() == {"a", "b"}
    # It has not waited for long.
    jobs[1] = waits("a", 990.0, user=1)
    assert granted(decided(jobs, needs, Supply(64 * G, gpus=8), quotas=quotas)) == {"r", "b", "x"}
