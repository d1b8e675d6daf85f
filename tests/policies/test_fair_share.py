# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Users share first, then their jobs; the same under every policy, and one user sees nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.policy_situations import NOW, SPECS, Situation, situations
from tf_malleable.model import Allocation, Grant, Job, Machine, Shape
from tf_malleable.model.quota import NO_QUOTAS, Quota, Quotas
from tf_malleable.policies.check import check
from tf_malleable.policies.registry import create
from tf_malleable.policies.wrappers.fair_share import FairSharePolicy, Taken, shared_fairly

ADA, BOB, EVE = 1001, 1002, 1003
ANY = Shape(1, 8, 8)
ONE = Shape(1, 1, 1)
ALL = Shape(8, 8, 8)
# These use every core that a job of unknown speed can use.
SHARING = [
    "equal",
    "weighted",
    "efficient",
    "lend+efficient",
    "lend+equal",
    "srpt",
    "fcfs-max-prop",
    "priority-max-prop:preempt=longest",
    "round-robin-max-prop",
]
PREEMPTIVE = ("preempt=", "round-robin", "srpt")


def waits(name: str, user: int, shape: Shape = ANY, since: float = NOW - 5) -> Job:
    return Job(name, shape, submitted=since, since=since, user=user)


def runs(
    name: str, user: int, cpus: set[int], shape: Shape = ANY, started: float = NOW - 50
) -> Job:
    return Job(
        name,
        shape,
        submitted=started,
        state="running",
        since=started,
        started=started,
        grant=Grant(frozenset(cpus)),
        user=user,
    )


def decide(
    spec: str,
    *jobs: Job,
    cpus: int = 8,
    quotas: Quotas = NO_QUOTAS,
    taken: Mapping[int | None, Taken] | None = None,
) -> dict[str, int]:
    """Return how many cores each job gets that gets any."""
    machine = Machine.flat(cpus)
    allocation = shared_fairly(create(spec), quotas, taken or {}).allocate(jobs, machine, NOW)
    check(allocation, jobs, machine)
    return {name: len(grant.own) for name, grant in allocation.grants.items() if grant}


def by_user(granted: dict[str, int], *jobs: Job) -> Counter[int | None]:
    users: Counter[int | None] = Counter()
    for job in jobs:
        users[job.user] += granted.get(job.id, 0)
    return users


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=30)
@given(situation=situations())
def test_a_single_user_sees_no_change(spec: str, situation: Situation):
    jobs = [replace(job, user=ADA) for job in situation.jobs]
    policy = create(spec)
    expected = policy.allocate(jobs, situation.machine, NOW)
    assert shared_fairly(policy, NO_QUOTAS, {}).allocate(jobs, situation.machine, NOW) == expected


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=60)
@given(situation=situations(), users=st.lists(st.sampled_from([ADA, BOB, EVE]), min_size=8))
def test_with_several_users_every_policy_decides_validly(spec, situation, users):
    jobs = [replace(job, user=user) for job, user in zip(situation.jobs, users, strict=False)]
    quotas = Quotas(own={EVE: Quota(weight=3, max_cores=4, max_running=2)})
    allocation = shared_fairly(create(spec), quotas, {}).allocate(jobs, situation.machine, NOW)
    check(allocation, jobs, situation.machine)
    if spec.startswith("lend+"):
        return  # What a lender keeps does not count.
    given_to = by_user({name: len(g.own) for name, g in allocation.grants.items()}, *jobs)
    assert given_to[EVE] <= 4
    assert sum(job.user == EVE and job.id in allocation.grants for job in jobs) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("spec", [s for s in SPECS if not any(p in s for p in PREEMPTIVE)])
@settings(max_examples=60)
@given(situation=situations(settled=True), users=st.lists(st.sampled_from([ADA, BOB]), min_size=8))
def test_running_jobs_keep_min(spec, situation, users):
    jobs = [replace(job, user=user) for job, user in zip(situation.jobs, users, strict=False)]
    allocation = shared_fairly(create(spec), NO_QUOTAS, {}).allocate(jobs, situation.machine, NOW)
    for job in jobs:
        if job.state == "running":
            assert len(allocation.grants[job.id].own) >= job.shape.min


@pytest.mark.parametrize("spec", SHARING)
def test_how_many_jobs_a_user_has_makes_no_difference(spec: str):
    jobs = [waits("a1", ADA), waits("a2", ADA), waits("a3", ADA), waits("b", BOB)]
    assert by_user(decide(spec, *jobs), *jobs) == {ADA: 4, BOB: 4}


@pytest.mark.parametrize("spec", SHARING)
def test_users_count_by_their_weight(spec: str):
    jobs = [waits("a", ADA), waits("b1", BOB), waits("b2", BOB)]
    quotas = Quotas(own={ADA: Quota(weight=3)})
    assert by_user(decide(spec, *jobs, quotas=quotas), *jobs) == {ADA: 6, BOB: 2}


@pytest.mark.parametrize("spec", SHARING)
def test_what_a_user_cannot_use_goes_to_the_others(spec: str):
    jobs = [waits("a", ADA, ONE), waits("b", BOB)]
    assert decide(spec, *jobs) == {"a": 1, "b": 7}


def test_what_no_job_of_a_user_takes_goes_to_the_others():
    three = Shape(3, 3, 8)
    jobs = [waits("a1", ADA, three), waits("a2", ADA, three), waits("b", BOB, Shape(1, 2, 8))]
    assert decide("fcfs-strict", *jobs) == {"a1": 3, "a2": 3, "b": 2}


@pytest.mark.parametrize("spec", SHARING)
def test_running_jobs_shrink_for_another_user_before_those_of_one_user_do(spec: str):
    jobs = [runs("a1", ADA, {0, 1, 2, 3}), runs("a2", ADA, {4, 5, 6, 7}), waits("b", BOB)]
    assert by_user(decide(spec, *jobs), *jobs) == {ADA: 4, BOB: 4}


@pytest.mark.parametrize("spec", ["equal", "efficient", "lend+efficient", "fcfs-always-attend"])
def test_a_free_core_goes_to_the_user_who_has_none(spec: str):
    running = [runs(f"a{n}", ADA, {n}, ONE) for n in range(8)]
    queue = [waits("a", ADA, ONE, since=NOW - 30), waits("b", BOB, ONE)]
    assert "b" not in decide(spec, *running, *queue)
    # The first of them has ended.
    granted = decide(spec, *running[1:], *queue)
    assert granted == {**{f"a{n}": 1 for n in range(1, 8)}, "b": 1}


def test_a_job_that_does_not_fit_stops_others_only_after_ten_minutes():
    running = [runs("a1", ADA, {0}, ONE), runs("a2", ADA, {1}, ONE)]
    waiting = waits("a3", ADA, ONE)
    assert "a3" in decide("equal", *running, waiting, waits("b", BOB, ALL, since=NOW - 599))
    assert "a3" not in decide("equal", *running, waiting, waits("b", BOB, ALL, since=NOW - 600))


def test_jobs_of_a_user_overtake_a_larger_one_of_his_for_ten_minutes():
    others = [runs("a", ADA, {0, 1, 2, 3}, Shape(4, 4, 4)), runs("b1", BOB, {4}, ONE)]
    for since, overtakes in ((NOW - 599, True), (NOW - 600, False)):
        queue = [waits("large", BOB, Shape(6, 6, 6), since), waits("b2", BOB, ONE)]
        assert ("b2" in decide("equal", *others, *queue)) is overtakes


@pytest.mark.parametrize(
    "spec", ["round-robin-max-prop", "round-robin-max-prop:quantum=3", "srpt", "lend+srpt"]
)
def test_users_take_turns_where_jobs_may_be_paused(spec: str):
    queue = [waits(f"a{n}", ADA, ALL, since=NOW - 40 + n) for n in range(9)]
    hers = runs("a", ADA, set(range(8)), ALL)
    assert decide(spec, hers, *queue, waits("b", BOB, ALL, since=NOW - 12)) == {"b": 8}
    # Not before her turn is over,
    hers = runs("a", ADA, set(range(8)), ALL, started=NOW - 1)
    assert "b" not in decide(spec, hers, *queue, waits("b", BOB, ALL, since=NOW - 12))
    # unless her jobs have replaced each other for so long that he never had his.
    assert decide(spec, hers, *queue, waits("b", BOB, ALL, since=NOW - 25)) == {"b": 8}


@pytest.mark.parametrize("spec", SHARING)
def test_nobody_gets_more_than_the_quota(spec: str):
    quotas = Quotas(Quota(max_cores=3))
    jobs = [waits("a1", ADA), waits("a2", ADA)]
    assert sum(decide(spec, *jobs, quotas=quotas).values()) == 3
    more = [*jobs, waits("b", BOB)]
    assert by_user(decide(spec, *more, quotas=quotas), *more) == {ADA: 3, BOB: 3}


@pytest.mark.parametrize("spec", SHARING)
def test_no_more_jobs_run_than_the_quota_allows(spec: str):
    quotas = Quotas(Quota(max_running=2))
    jobs = [waits(f"a{n}", ADA, since=NOW - 9 + n) for n in range(5)]
    granted = decide(spec, *jobs, quotas=quotas)
    assert (len(granted), sum(granted.values())) == (2, 8)
    # Those that run go on.
    running = [runs("r1", ADA, {0, 1, 2, 3}), runs("r2", ADA, {4, 5, 6, 7})]
    if not any(name in spec for name in PREEMPTIVE):
        assert decide(spec, *running, *jobs, quotas=quotas).keys() == {"r1", "r2"}


def test_what_a_user_has_beside_these_jobs_counts():
    jobs = [waits("a", ADA), waits("b", BOB)]
    taken: dict[int | None, Taken] = {ADA: Taken(cores=4, jobs=1)}
    assert decide("equal", *jobs, cpus=4, taken=taken) == {"a": 1, "b": 3}
    quotas = Quotas(Quota(max_running=1))
    assert decide("equal", *jobs, cpus=4, taken=taken, quotas=quotas) == {"b": 4}


def test_a_policy_that_chooses_cpus_itself_is_asked_for_each_user():
    class LastCpu:
        """Gives the last CPU to the first job."""

        def allocate(self, jobs, machine, now):
            return Allocation({jobs[0].id: Grant(frozenset({machine.cpus[-1].id}))})

    jobs = [waits("a1", ADA), waits("a2", ADA), waits("b", BOB)]
    machine = Machine.flat(8)
    allocation = FairSharePolicy(LastCpu()).allocate(jobs, machine, NOW)
    check(allocation, jobs, machine)
    assert {name: len(grant.own) for name, grant in allocation.grants.items()} == {"a1": 1, "b": 1}


def test_lenders_lend_to_anybody():
    asleep = replace(runs("a", ADA, {0, 1, 2, 3}), used_cpus=0.0)
    assert decide("lend+equal", asleep, waits("b", BOB))["b"] == 8
