# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Services with objectives: how many cores they get, when, and before whom."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.policy_situations import PLAIN, Situation, carried_out, situations
from tf_malleable.model import Allocation, Grant, Job, Machine, Shape
from tf_malleable.model.quota import Quota, Quotas
from tf_malleable.model.services.request_load import RequestLoad
from tf_malleable.model.services.slo import Slo
from tf_malleable.policies.check import check
from tf_malleable.policies.registry import create
from tf_malleable.scheduling.decision.decision import Candidate, decide

NOW = 1000.0
SLO = Slo(99, 0.05)
SHAPE = Shape(1, 8, 8)


def service(
    name: str,
    cpus: set[int],
    tail: float | None = None,
    *,
    queue: float = 0.0,
    calm: float = NOW,
    used: float | None = 0.1,
    **more: object,
) -> Job:
    job = Job(
        name,
        SHAPE,
        submitted=0.0,
        state="running" if cpus else "waiting",
        grant=Grant(frozenset(cpus)),
        started=0.0 if cpus else None,
        used_cpus=used,
        load=RequestLoad(SLO, tail, queue, calm),
    )
    return replace(job, **more)  # type: ignore[arg-type]


def training(name: str, cpus: set[int] | None = None, **more: object) -> Job:
    job = Job(name, SHAPE, submitted=1.0, used_cpus=float(len(cpus or ())) or None)
    if cpus:
        job = replace(job, state="running", started=1.0, grant=Grant(frozenset(cpus)))
    return replace(job, **more)  # type: ignore[arg-type]


def asked(
    cpus: int, *jobs: Job, quotas: Quotas | None = None, preempts: bool = False
) -> Allocation:
    candidates = [Candidate(job, None, False) for job in jobs]
    machine = replace(Machine.flat(cpus), preempts=preempts)
    return decide(create("lend+srpt"), candidates, machine, NOW, quotas or Quotas())


def cores(cpus: int, *jobs: Job, quotas: Quotas | None = None) -> dict[str, int]:
    found = asked(cpus, *jobs, quotas=quotas).grants
    return {job.id: len(found[job.id].cpus) if job.id in found else 0 for job in jobs}


def test_a_new_service_starts_with_its_minimum_and_trainings_have_the_rest():
    assert cores(4, service("s", set()), training("t", {0, 1, 2, 3})) == {"s": 1, "t": 3}


@pytest.mark.parametrize(
    ("tail", "queue", "expected"),
    [
        (None, 0.0, 2),
        (0.039, 0.0, 2),
        (0.041, 0.0, 4),
        (0.5, 0.0, 4),
        (0.01, 0.041, 4),
        (None, 0.041, 4),
        (None, 9.0, 4),
    ],
)
def test_cores_are_doubled_as_soon_as_tail_or_queue_come_near_the_objective(tail, queue, expected):
    held = service("s", {0, 1}, tail, queue=queue)
    assert cores(6, held, training("t", {2, 3, 4, 5})) == {"s": expected, "t": 6 - expected}


def test_a_resize_is_given_a_tenth_of_a_second_to_show_its_effect():
    for seconds, expected in ((0.05, 2), (0.11, 4)):
        held = service("s", {0, 1}, 0.2, resized=NOW - seconds)
        assert cores(8, held, training("t", {2}))["s"] == expected


@pytest.mark.parametrize(
    ("calm", "used", "unrest", "expected"),
    [
        (4.9, 0.1, 0.0, 3),
        (5.1, 0.1, 0.0, 2),
        (5.1, 1.4, 0.0, 2),
        (5.1, 1.6, 0.0, 3),
        (5.1, 0.1, 1.0, 2),
        (9.9, 0.1, 2.0, 3),
        (10.1, 0.1, 2.0, 2),
        (20.1, 0.1, 9.0, 2),
        (900.0, None, 0.0, 2),
    ],
)
def test_one_core_is_given_up_after_calm_seconds(calm, used, unrest, expected):
    held = service("s", {0, 1, 2}, 0.01, calm=NOW - calm, used=used, unrest=unrest)
    assert cores(4, held, training("t", {3}))["s"] == expected


def test_a_calm_service_is_looked_at_again_in_time():
    held = service("s", {0, 1, 2}, 0.01, calm=NOW - 2.0)
    review = asked(4, held, training("t", {3}, used_cpus=None)).review_at
    assert review is not None
    assert NOW < review <= NOW + 3.0


def test_a_service_keeps_its_minimum_for_ever():
    idle = service("s", {0}, None, calm=0.0, used=0.0)
    assert cores(2, idle, training("t", {1})) == {"s": 1, "t": 1}


def test_trainings_are_paused_if_the_service_needs_all():
    found = asked(2, service("s", {0}, 0.2), training("t", {1}), training("u"))
    assert found.grants == {"s": Grant(frozenset({0, 1}))}


def test_who_may_preempt_trainings_has_all_cores_and_shares_them():
    for tail in (None, 0.001, 0.2):
        held = service("s", {0}, tail)
        found = asked(2, held, training("t", {1}), training("u"), preempts=True)
        own = frozenset({0, 1})
        assert found.grants["s"] == Grant(own, lent=own)
        assert {found.grants[job].cpus for job in "tu"} == {frozenset({0}), frozenset({1})}


def test_it_shares_nothing_while_the_others_have_what_they_can_use():
    small = training("t", {1, 2}, shape=Shape(1, 2, 2))
    held = service("s", {0}, shape=Shape(1, 1, 1))
    found = asked(3, held, small, preempts=True)
    assert found.grants == {"s": Grant(frozenset({0})), "t": Grant(frozenset({1, 2}))}


@pytest.mark.parametrize(("used", "expected"), [(0.7, (7, 1)), (0.8, (6, 2)), (4.0, (2, 6))])
def test_of_two_services_that_share_each_has_what_it_keeps_busy_and_the_older_the_rest(
    used, expected
):
    older = service("older", {0, 1, 2, 3, 4}, submitted=1.0, used=0.5)
    younger = service("younger", {5}, submitted=2.0, used=used)
    found = asked(8, younger, older, training("t"), preempts=True).grants
    assert (len(found["older"].cpus), len(found["younger"].cpus)) == expected


def test_who_may_share_no_longer_keeps_what_it_keeps_busy():
    own = frozenset(range(8))
    held = service("s", set(own), used=1.4, grant=Grant(own, lent=own))
    assert cores(8, held, training("t", set(own))) == {"s": 2, "t": 6}


def test_a_quota_of_cores_counts_what_a_service_keeps_busy():
    quotas = Quotas(own={1: Quota(max_cores=4)})
    held, job = service("s", {0, 1}, used=1.4, user=1), training("t", {2, 3}, user=1)
    found = asked(8, held, job, quotas=quotas, preempts=True).grants
    assert (len(found["s"].cpus), len(found["t"].cpus)) == (2, 2)


def test_what_sleeps_on_a_shared_core_lends_it_on():
    job = training("t", {0, 1}, used_cpus=0.0)
    found = asked(2, service("s", {0, 1}, 0.2), job, training("u"), preempts=True)
    own = frozenset({0, 1})
    assert found.grants["s"] == Grant(own, lent=own)
    assert found.grants["t"] == Grant(lent=own)
    assert found.grants["u"] == Grant(own)


def test_of_two_services_the_older_has_what_it_needs_and_the_younger_its_minimum():
    older = service("older", {0, 1}, 0.2, submitted=1.0)
    younger = service("younger", {2, 3}, 0.2, submitted=2.0)
    for order in ([older, younger], [younger, older]):
        assert cores(4, *order) == {"older": 3, "younger": 1}


def test_a_service_cannot_have_more_than_its_users_share_beside_other_users():
    greedy = service("s", {0, 1}, 9.0, user=1)
    assert cores(8, greedy, training("t", {2}, user=2))["s"] == 4
    weights = Quotas(own={2: Quota(weight=3.0)})
    assert cores(8, greedy, training("t", {2}, user=2), quotas=weights)["s"] == 2
    assert cores(8, greedy, training("t", {2}, user=1))["s"] == 4
    assert (
        cores(8, replace(greedy, grant=Grant(frozenset(range(5)))), training("t", user=1))["s"] == 8
    )


def test_a_service_counts_in_its_users_share_and_quota():
    held = service("s", {0, 1, 2, 3}, user=1)
    mine, other = training("mine", {4}, user=1), training("other", {5, 6, 7}, user=2)
    found = cores(8, held, mine, other)
    assert (found["s"], found["other"]) == (4, 3)
    quotas = Quotas(own={1: Quota(max_cores=3)})
    found = cores(8, held, mine, other, quotas=quotas)
    assert found["s"] + found["mine"] <= 3
    assert cores(8, held, mine, other, quotas=Quotas(own={1: Quota(max_running=1)}))["mine"] == 0


def test_a_service_set_by_hand_has_that():
    candidates = [Candidate(service("s", {0}, 9.0), 1, False)]
    found = decide(create("equal"), candidates, Machine.flat(4), NOW)
    assert found.grants == {"s": Grant(frozenset({0}))}


@st.composite
def with_services(draw: st.DrawFn) -> Situation:
    situation = draw(situations(settled=True))
    jobs = [
        replace(
            job,
            load=RequestLoad(
                SLO,
                draw(st.none() | st.floats(0, 1)),
                draw(st.floats(0, 1)),
                draw(st.floats(0, NOW)),
            ),
        )
        if draw(st.booleans())
        else job
        for job in situation.jobs
    ]
    machine = replace(situation.machine, preempts=draw(st.booleans()))
    return replace(situation, jobs=tuple(jobs), machine=machine)


@pytest.mark.slow
@pytest.mark.parametrize("inner", [*PLAIN, *(f"lend+{name}" for name in PLAIN)])
@settings(
    max_examples=25,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(situation=with_services())
def test_any_policy_can_be_wrapped(inner: str, situation: Situation):
    jobs, machine = list(situation.jobs), situation.machine
    allocation = create(f"slo+{inner}").allocate(jobs, machine, NOW)
    check(allocation, jobs, machine)
    assert allocation.review_at is None or allocation.review_at > NOW
    used = {job: len(grant.own) for job, grant in allocation.grants.items()}
    running = [job for job in jobs if job.load and job.state == "running"]
    if sum(job.shape.min for job in jobs if job.load) <= len(machine.cpus):
        assert all(used[job.id] >= job.shape.min for job in running)
    without = [replace(job, load=None) for job in jobs]
    assert create(f"slo+{inner}").allocate(without, machine, NOW) == create(inner).allocate(
        without, machine, NOW
    )
    again = create(f"slo+{inner}").allocate(carried_out(jobs, allocation, NOW), machine, NOW)
    check(again, jobs, machine)
