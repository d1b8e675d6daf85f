# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A workload in virtual time: what is seen, what is not, and that it is always the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace

import msgspec
import pytest

from tests.support import ROOT
from tf_malleable.model import Allocation, Grant, Machine, Shape
from tf_malleable.policies import registry
from tf_malleable.simulate.engine.curves import amdahl
from tf_malleable.simulate.engine.host import SimulationError
from tf_malleable.simulate.engine.simulation import Outcome, Scenario, simulate
from tf_malleable.simulate.engine.task import Task

FOUR = Scenario((Machine.flat(4),))


def job(name: str, at: float, seconds: float, **more: object) -> Task:
    return Task(name, at, seconds, amdahl(0.1), Shape(1, 4, 4), **more)  # type: ignore[arg-type]


def some() -> list[Task]:
    return [job(f"job {n % 7}", 3.0 * n, 20.0 + 13 * (n % 5), starting=2.0) for n in range(30)]


def grants(outcome: Outcome, until: float) -> dict[str, list[tuple[float, tuple[int, ...]]]]:
    """Return when each job got which CPUs, up to a time."""
    found = defaultdict(list)
    for span in outcome.history.spans:
        if span.begin < until:
            found[span.job].append((span.begin, tuple(span.cpus)))
    return found


class Asked:
    """Shares out equally, and keeps what it was shown."""

    def __init__(self):
        self.seen = []

    def allocate(self, jobs, machine, now):
        self.seen.append((now, list(jobs)))
        return registry.create("equal").allocate(jobs, machine, now)


@pytest.mark.parametrize("policy", ["lend+srpt", "efficient", "fcfs-max-prop"])
def test_nobody_sees_the_future(policy):
    tasks = some()
    longer = [replace(each, seconds=each.seconds + 500 * (each.at > 60)) for each in tasks]
    longer = [
        replace(one, steps=one.steps * two.seconds / one.seconds, told=one.steps)
        for one, two in zip(tasks, longer, strict=True)
    ]
    longer = [
        replace(two, seconds=one.seconds * two.steps / 100.0)
        for one, two in zip(tasks, longer, strict=True)
    ]
    now, then = (simulate(each, policy, FOUR, spans=True) for each in (tasks, longer))
    ends = min(each.ended for each in now.history.jobs if float(each.submitted) > 60)
    assert grants(now, ends) == grants(then, ends)


def test_what_is_learned_of_a_command_is_expected_of_the_next_run_and_not_before():
    asked = Asked()
    tasks = [job("again", at, 40.0, command=("python", "again.py")) for at in (0.0, 100.0)]
    first, _ = simulate(tasks, asked, FOUR).history.jobs
    early = [each for now, jobs in asked.seen if now < 100.0 for each in jobs]
    late = [each for now, jobs in asked.seen if now >= 100.0 for each in jobs]
    assert {each.expected_seconds for each in early} == {None}
    assert {each.expected_seconds for each in late} == {first.service_seconds}
    assert late[0].rates


def test_speeds_are_known_only_after_they_were_measured():
    asked = Asked()
    simulate([job("new", 0.0, 40.0, starting=5.0)], asked, FOUR)
    known = [(now, [rate.cores for rate in jobs[0].rates]) for now, jobs in asked.seen if jobs]
    assert known[0] == (0.0, [])
    measured = [now for now, cores in known if cores]
    # Its first step ends after 5.1 s, and is in a report up to a second later; the one after that
    # tells the speed.
    assert 6.1 < measured[0] < 7.2
    steps = [(now, jobs[0].steps_done) for now, jobs in asked.seen if jobs]
    assert all(done is None for now, done in steps if now < 5.0)


def test_what_a_job_says_of_its_length_need_not_be_true():
    asked = Asked()
    simulate([job("liar", 0.0, 40.0, told=10.0)], asked, FOUR)
    assert {jobs[0].steps_total for _, jobs in asked.seen if jobs and jobs[0].steps_done} == {10.0}


def test_a_job_that_fails_does_less_and_teaches_no_run_time():
    asked = Asked()
    command = ("python", "fails.py")
    tasks = [
        job("fails", 0.0, 40.0, command=command, fails_at=0.5),
        job("fails", 100.0, 40.0, command=command),
    ]
    first, second = simulate(tasks, asked, FOUR).history.jobs
    assert (first.outcome, first.exit_code) == ("failed", 1)
    assert first.service_seconds == pytest.approx(second.service_seconds / 2, rel=0.01)
    assert {each.expected_seconds for _, jobs in asked.seen for each in jobs} == {None}


def test_jobs_that_can_never_run_are_refused_and_counted():
    tasks = [
        job("fits", 0.0, 10.0),
        Task("too large", 0.0, 10.0, shape=Shape(8, 8, 8)),
        Task("does not wait", 1.0, 10.0, shape=Shape(2, 4, 4), queue=False),
    ]
    outcome = simulate(tasks, "fcfs-strict", FOUR)
    assert [each.name for each in outcome.history.jobs] == ["fits"]
    assert outcome.counts.rejected == 2


def test_a_nap_lends_its_cores_and_has_them_back():
    tasks = [
        Task("naps", 0.0, 80.0, shape=Shape(4, 4, 4), busy=40.0, idle=20.0),
        Task("borrows", 0.5, 200.0, shape=Shape(1, 4, 4)),
    ]
    found = simulate(tasks, "lend+fcfs-strict", FOUR, spans=True)
    naps, borrows = found.history.jobs
    # It computes 10 s, sleeps 20 s and computes 10 s, and is hardly late.
    assert naps.total_seconds == pytest.approx(40.0, abs=1.0)
    begun = next(span for span in found.history.spans if span.job == "2" and span.cpus)
    # Three samples after it fell asleep, it lends.
    assert begun.begin == pytest.approx(10.35, abs=0.15)
    kept = simulate(tasks, "fcfs-strict", FOUR).history.jobs
    assert borrows.ended < kept[1].ended - 9.0


PROGRAM = """
import sys
import msgspec
from tests.simulate.test_simulation import FOUR, some
from tf_malleable.simulate.engine.simulation import simulate
from dataclasses import replace
outcome = simulate(some(), "lend+srpt", replace(FOUR, seed=5, noise=0.1), spans=True)
sys.stdout.buffer.write(msgspec.json.encode(outcome))
"""


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_in_any_process():
    path = os.environ.get("PYTHONPATH", "")
    said = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT}:{path}"},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
    assert msgspec.json.decode(said.pop())["counts"]["ends"] == 30


def test_noise_changes_speeds_and_another_seed_changes_them_otherwise():
    spans = {
        seed: simulate(some(), "equal", replace(FOUR, seed=seed, noise=noise)).history.summary
        for seed, noise in ((0, 0.0), (1, 0.1), (2, 0.1))
    }
    assert len({summary.makespan for summary in spans.values()}) == 3


class Raises:
    def allocate(self, jobs, machine, now):
        raise RuntimeError("out of\nideas")


class Invents:
    def allocate(self, jobs, machine, now):
        return Allocation({"99": Grant(machine.cpuset)})


class ReviewsThePast:
    def allocate(self, jobs, machine, now):
        allocation = registry.create("equal").allocate(jobs, machine, now)
        return Allocation(allocation.grants, now - 2.0)


class GivesNothing:
    def allocate(self, jobs, machine, now):
        return Allocation({}, now + 1.0 if jobs else None)


class GivesNothingForEver:
    def allocate(self, jobs, machine, now):
        return Allocation({})


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        (Raises(), "RuntimeError: out of ideas"),
        (Invents(), "InvalidAllocationError: there is no job '99'"),
        (ReviewsThePast(), "it asks for a review 2 s in the past"),
        (GivesNothing(), "it never gives cores to 1 waiting job"),
        (GivesNothingForEver(), "it never gives cores to 1 waiting job"),
    ],
)
def test_a_policy_that_cannot_go_on_is_named(policy, sentence):
    with pytest.raises(SimulationError) as said:
        simulate([job("one", 1.0, 5.0)], policy, FOUR)
    assert str(said.value) == sentence
