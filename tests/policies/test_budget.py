# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Budgets: peaks by fewer cores, means by pausing all together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, zip_longest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.power.servers import SERVERS
from tests.support.policy_situations import NOW, Situation, carried_out, situations
from tf_malleable.model import (
    Allocation,
    AreaLimit,
    Budget,
    Job,
    Machine,
    PowerCurve,
    PowerLimit,
    Shape,
)
from tf_malleable.model.power import lower_hull
from tf_malleable.model.quota import Quota, Quotas
from tf_malleable.policies.check import check
from tf_malleable.policies.registry import create
from tf_malleable.policies.wrappers.budget import area_caps, cap_of
from tf_malleable.scheduling.decision.decision import Candidate, decide

CPUS = 8
BENT = PowerCurve(((0.0, 50.0), (0.5, 60.0), (1.0, 200.0)))  # Half load is on the hull.
STEEP = PowerCurve(((0.0, 50.0), (0.5, 150.0), (1.0, 200.0)))  # And here above it.


def mean(watts: float, curve: PowerCurve = STEEP, **more: float) -> PowerLimit:
    return PowerLimit(Budget(watts, "mean", 100.0), curve, CPUS, CPUS, at=NOW, **more)


def peak(watts: float, curve: PowerCurve = STEEP, **more: float) -> PowerLimit:
    return PowerLimit(Budget(watts), curve, CPUS, CPUS, at=NOW, **more)


def jobs(*cores: int) -> list[Job]:
    return [Job(str(i), Shape(1, most, most), submitted=float(i)) for i, most in enumerate(cores)]


def granted(limit: PowerLimit | None, *waiting: Job, policy: str = "budget+equal") -> Allocation:
    machine = Machine(Machine.flat(CPUS).cpus, limit)
    found = create(policy).allocate(waiting, machine, NOW)
    check(found, waiting, machine)
    return found


def cores(allocation: Allocation) -> int:
    return len(frozenset[int]().union(*(grant.cpus for grant in allocation.grants.values())))


def test_without_a_limit_it_is_the_wrapped_policy():
    assert granted(None, *jobs(8)) == create("equal").allocate(jobs(8), Machine.flat(CPUS), NOW)


@pytest.mark.parametrize(
    ("watts", "count"), [(200, 8), (199, 7), (187.5, 7), (150, 4), (100, 2), (75, 1), (74, 0)]
)
def test_a_peak_is_kept_by_fewer_cores(watts, count):
    assert cores(granted(peak(watts), *jobs(8, 8))) == count


def test_what_is_no_job_counts_towards_a_peak():
    assert cores(granted(peak(150, beside=1.5), *jobs(8))) == 2


def test_a_host_that_draws_more_than_its_curve_says_gets_fewer_cores():
    assert cores(granted(peak(150, scale=1.2), *jobs(8))) == 3


def test_an_expired_budget_is_none():
    limit = replace(peak(74), budget=Budget(74.0, until=NOW))
    assert cores(granted(limit, *jobs(8))) == 8
    limit = replace(peak(74), budget=Budget(74.0, until=NOW + 5))
    assert granted(limit, *jobs(8)).review_at == NOW + 5


def test_a_mean_pauses_all_until_there_is_credit_and_then_runs_all():
    limit = mean(125)
    assert granted(limit, *jobs(8)).grants == {}
    full = replace(limit, credit=limit.depth)
    running = granted(full, *jobs(8))
    assert cores(running) == 8
    # Until the credit is used up: 75 W more than the budget.
    assert running.review_at == pytest.approx(NOW + full.depth / 75, abs=0.01)
    awake = [replace(jobs(8)[0], state="running", started=1.0, grant=running.grants["0"])]
    assert cores(granted(replace(full, credit=1.0), *awake)) == 8
    assert granted(replace(full, credit=-1.0), *awake).grants == {}
    # Until it is full again: 75 W less than the budget.
    paused = granted(replace(full, credit=-1.0), *awake)
    assert paused.review_at == pytest.approx(NOW + (full.depth + 1) / 75, abs=0.01)


def test_a_mean_follows_the_hull():
    limit = mean(100, BENT)
    assert cores(granted(limit, *jobs(8))) == 4
    assert cores(granted(replace(limit, credit=limit.depth), *jobs(8))) == 8
    assert cores(granted(mean(57, BENT, credit=100.0), *jobs(8))) == 4
    assert cores(granted(mean(57, BENT), *jobs(8))) == 0


def test_a_mean_that_others_exceed_alone_pauses_all_and_looks_again():
    found = granted(mean(100, beside=4.0, credit=50.0), *jobs(8))
    assert found.grants == {}
    assert found.review_at == NOW + 1


def test_cores_set_by_hand_do_not_exceed_a_budget():
    machine = Machine(Machine.flat(CPUS).cpus, peak(150))
    wanted = [Candidate(job, 4, False) for job in jobs(8, 8)]
    found = decide(create("budget+lend+equal"), wanted, machine, NOW)
    assert {job: len(grant.cpus) for job, grant in found.grants.items()} == {"0": 4}
    # And they are paused together with all others.
    machine = Machine(Machine.flat(CPUS).cpus, mean(125))
    found = decide(create("budget+equal"), wanted, machine, NOW)
    assert not any(found.grants.values())
    assert found.review_at is not None


def test_users_share_what_a_budget_leaves():
    machine = Machine(Machine.flat(CPUS).cpus, peak(150))
    wanted = [Candidate(replace(job, user=int(job.id)), None, False) for job in jobs(8, 8)]
    found = decide(create("budget+fcfs-max-prop"), wanted, machine, NOW)
    assert [len(grant.cpus) for grant in found.grants.values()] == [2, 2]


LIMITS = st.builds(
    PowerLimit,
    st.one_of(
        st.builds(Budget, st.floats(1, 700)),
        st.builds(Budget, st.floats(1, 700), st.just("mean"), st.floats(10, 1000)),
    ),
    st.sampled_from([server.curve for server in SERVERS]),
    st.integers(12, 20),
    st.integers(0, 12),
    st.floats(0, 8),
    st.floats(0.5, 2),
    st.floats(-100, 100),
    st.floats(NOW - 1, NOW),
)


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["budget+lend+srpt", "budget+equal", "budget+priority-strict"])
@settings(max_examples=40, deadline=None, database=None, derandomize=True)
@given(situation=situations(), limit=LIMITS)
def test_allocations_are_valid_pure_and_within_the_cap(spec, situation: Situation, limit):
    limit = replace(limit, shared=len(situation.machine.cpus))
    machine = Machine(situation.machine.cpus, limit)
    policy, waiting = create(spec), list(situation.jobs)
    found = policy.allocate(waiting, machine, NOW)
    check(found, waiting, machine)
    assert found == create(spec).allocate(waiting, machine, NOW)
    assert found.review_at is None or found.review_at > NOW
    held = frozenset[int]().union(*(job.grant.cpus for job in waiting))
    assert cores(found) <= cap_of(limit, len(held), NOW).cores
    if limit.budget.kind == "peak" and cores(found):
        assert limit.watts(cores(found)) <= limit.budget.watts + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS[::3], ids=lambda server: server.name)
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_a_mean_is_kept_in_every_window_with_the_work_of_the_hull(server, share):
    """In virtual time, against a host that draws 5 % more than its curve says."""
    curve, window, step, cpus = server.curve, 100.0, 0.1, 16
    watts = curve.idle + share * (curve.full - curve.idle)
    budget = Budget(watts, "mean", window)
    policy, machine = create("budget+equal"), Machine.flat(cpus)
    waiting = [Job("0", Shape(1, cpus, cpus), submitted=0.0)]
    drawn, work, credit = [0.0], 0.0, 0.0
    for tick in range(2500):
        now = tick * step
        limit = PowerLimit(budget, curve, cpus, cpus, scale=1.05, credit=credit, at=now)
        found = policy.allocate(waiting, Machine(machine.cpus, limit), now)
        waiting = carried_out(waiting, found, now)
        running = cores(found)
        joules = 1.05 * curve.watts(running / cpus) * step
        credit = min(limit.most_credit, credit + watts * step - joules)
        drawn.append(drawn[-1] + joules)
        work += running / cpus * step
    length = round(window / step)
    means = [(b - a) / window for a, b in zip(drawn, drawn[length:], strict=False)]
    assert max(means) <= watts * 1.02
    hull = lower_hull((load, 1.05 * power) for load, power in curve.points)
    best = next(
        x0 + (x1 - x0) * (watts - y0) / (y1 - y0)
        for (x0, y0), (x1, y1) in pairwise(hull)
        if y0 <= watts <= y1
    )
    assert work / (2500 * step) >= 0.95 * best


# Areas.


def of_area(watts: float, curve: PowerCurve = STEEP, name: str = "a", **more: float) -> AreaLimit:
    budget = Budget(watts, "mean", 100.0) if more.pop("window", None) else Budget(watts)
    return AreaLimit(budget, curve, CPUS, CPUS, at=NOW, area=name, **more)  # type: ignore[arg-type]


def in_areas(limits: Sequence[AreaLimit], wanted: Sequence[Job], spec: str, **more) -> dict:
    machine = Machine(Machine.flat(CPUS).cpus, areas=tuple(limits), **more)
    found = create(spec).allocate(wanted, machine, NOW)
    check(found, wanted, machine)
    return {job: len(grant.cpus) for job, grant in found.grants.items()}


def mine(*cores: int, area: str = "a") -> list[Job]:
    return [replace(job, id=f"{area}{job.id}", area=area) for job in jobs(*cores)]


def test_a_core_of_an_area_counts_as_the_most_that_it_can():
    # 25 W a core up to half load, and 150 W for eight.
    assert of_area(1.0).watts(1) == pytest.approx(25)
    assert of_area(1.0).watts(8) == pytest.approx(150)
    # Here a core costs most when all are busy: 150 W for eight.
    assert of_area(1.0, BENT).watts(1) == pytest.approx(150 / 8)
    assert of_area(1.0, BENT).watts(4) == pytest.approx(75)
    # Together with what is no job they keep more than all CPUs busy.
    assert of_area(1.0, BENT, beside=4.0).watts(8) == pytest.approx(150 * 8 / 12)
    assert of_area(1.0).watts(0) == 0


@pytest.mark.parametrize(("watts", "count"), [(150, 8), (149, 7), (76, 3), (26, 1), (24, 0)])
def test_a_peak_of_an_area_is_kept_by_fewer_cores_of_its_jobs(watts, count):
    found = in_areas([of_area(watts)], mine(8), "budget+equal")
    assert found.get("a0", 0) == count


def test_others_get_what_an_area_may_not_have():
    wanted = [*mine(8, 8), *mine(8, area="b")]
    assert in_areas([], wanted, "budget+equal") == {"a0": 3, "a1": 2, "b0": 3}
    assert in_areas([of_area(55)], wanted, "budget+equal") == {"a0": 1, "a1": 1, "b0": 6}
    both = [of_area(55), of_area(80, name="b")]
    assert in_areas(both, wanted, "budget+equal") == {"a0": 1, "a1": 1, "b0": 3}


@pytest.mark.parametrize("spec", ["budget+fcfs-strict", "budget+lend+fcfs-strict"])
def test_what_an_area_may_not_have_takes_no_other_above_its_budget(spec):
    # At first all goes to the job of area "b", so the one of area "a" is within its budget.
    wanted = [*mine(8, area="b"), *mine(8)]
    both = [of_area(30), of_area(24, name="b")]
    assert in_areas(both, wanted, spec) == {"a0": 1}


def test_a_host_s_peak_and_an_area_s_both_bind():
    wanted = [*mine(8), *mine(8, area="b")]
    found = in_areas([of_area(30)], wanted, "budget+equal", power=peak(150))
    assert found == {"a0": 1, "b0": 3}


def test_a_mean_of_an_area_pauses_its_jobs_together_and_nobody_else_s():
    wanted = [*mine(4, 4), *mine(8, area="b")]
    limit = of_area(30, window=100)
    assert in_areas([limit], wanted, "budget+equal") == {"b0": 8}
    credit = replace(limit, credit=limit.depth)
    assert in_areas([credit], wanted, "budget+equal") == {"a0": 3, "a1": 2, "b0": 3}
    machine = Machine(Machine.flat(CPUS).cpus, areas=(credit,))
    assert create("budget+equal").allocate(wanted, machine, NOW).review_at > NOW  # type: ignore[operator]


def test_an_area_s_expired_budget_is_none():
    limit = replace(of_area(24), budget=Budget(24.0, until=NOW))
    assert in_areas([limit], mine(8), "budget+equal") == {"a0": 8}


def test_cores_set_by_hand_do_not_exceed_an_area_s_budget():
    machine = Machine(Machine.flat(CPUS).cpus, areas=(of_area(80),))
    wanted = [Candidate(job, 2, False) for job in [*mine(8, 8), *mine(8, area="b")]]
    found = decide(create("budget+equal"), wanted, machine, NOW)
    # Three cores: one is left for the second, which asks for two by hand.
    assert {job: len(grant.cpus) for job, grant in found.grants.items()} == {
        "a0": 2,
        "a1": 1,
        "b0": 2,
    }


def test_a_user_s_quota_holds_across_areas():
    machine = Machine(Machine.flat(CPUS).cpus, areas=(of_area(55),))
    wanted = [
        Candidate(replace(job, user=1), None, False) for job in [*mine(8), *mine(8, area="b")]
    ]
    quotas = Quotas(usual=Quota(max_cores=3))
    found = decide(create("budget+equal"), wanted, machine, NOW, quotas)
    assert sum(len(grant.cpus) for grant in found.grants.values()) == 3


AREA_LIMITS = st.lists(
    st.builds(
        AreaLimit,
        st.one_of(
            st.builds(Budget, st.floats(1, 400)),
            st.builds(Budget, st.floats(1, 400), st.just("mean"), st.floats(10, 1000)),
        ),
        st.sampled_from([server.curve for server in SERVERS]),
        st.integers(12, 20),
        st.just(0),
        st.floats(0, 8),
        st.floats(0.5, 2),
        st.floats(-100, 100),
        st.floats(NOW - 1, NOW),
        st.sampled_from("ab"),
    ),
    max_size=2,
    unique_by=lambda limit: limit.area,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "spec", ["budget+lend+srpt", "budget+equal", "budget+priority-strict", "budget+fcfs-strict"]
)
@settings(max_examples=40, deadline=None, database=None, derandomize=True)
@given(situation=situations(), limits=AREA_LIMITS, areas=st.lists(st.sampled_from("abc")))
def test_areas_are_within_their_caps_whatever_the_policy(spec, situation: Situation, limits, areas):
    shared = len(situation.machine.cpus)
    limits = tuple(replace(limit, shared=shared) for limit in limits)
    machine = Machine(situation.machine.cpus, areas=limits)
    waiting = [
        replace(job, area=area)
        for job, area in zip_longest(situation.jobs, areas[: len(situation.jobs)])
    ]
    found = create(spec).allocate(waiting, machine, NOW)
    check(found, waiting, machine)
    assert found == create(spec).allocate(waiting, machine, NOW)
    caps = area_caps(limits, waiting, NOW)
    for limit in limits:
        grants = [
            found.grants[j.id] for j in waiting if j.area == limit.area and j.id in found.grants
        ]
        used = len(frozenset[int]().union(*(grant.cpus for grant in grants)))
        assert used <= caps[limit.area].cores
        if limit.budget.kind == "peak" and used:
            assert limit.watts(used) <= limit.budget.watts + 1e-9


@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(
    curve=st.sampled_from([server.curve for server in SERVERS]),
    cores=st.integers(1, 16),
    others=st.floats(0, 16),
    beside=st.floats(0, 4),
)
def test_what_counts_for_an_area_is_never_more_than_was_expected(curve, cores, others, beside):
    limit = AreaLimit(Budget(1.0), curve, 20, 16, beside, area="a")
    busy = min(16, cores + others) + beside
    active = curve.watts(busy / 20) - curve.idle
    assert active * cores / busy <= limit.watts(cores) + 1e-9
    assert limit.watts(cores) <= limit.watts(cores + 1) + 1e-9
