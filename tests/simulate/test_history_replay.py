# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A history becomes a workload that, simulated as it was, takes as long as it took."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import fmean

import pytest
from msgspec.structs import replace as changed

from tests.support.histories import ZERO, history, job
from tf_malleable.api.schema.history import History, JobRecord
from tf_malleable.api.schema.messages import Speed
from tf_malleable.model import Machine, Shape
from tf_malleable.simulate.engine import curves
from tf_malleable.simulate.engine.simulation import Scenario, simulate
from tf_malleable.simulate.engine.task import Task
from tf_malleable.simulate.engine.workload import Assumed, Workload
from tf_malleable.simulate.workloads.history_replay import replayed

CORES = 8
CURVES = {
    "linear": curves.LINEAR,
    "good": curves.amdahl(0.1),
    "poor": curves.amdahl(0.3),
    "peak": curves.usl(0.05, 0.003),
}
# Those whose decisions do not depend on the last digit of a measured speed or time: under `srpt` or
# `round-robin` a ten-thousandth more work reorders jobs, and under `efficient` a millisecond, by
# which a report falls before a decision or after it.
STEADY = ("fcfs-strict", "priority-max-prop", "equal")


def scenario(cores: int = CORES) -> Scenario:
    return Scenario((Machine.flat(cores),))


def tasks(seed: int, count: int = 60, waits: bool = False) -> list[Task]:
    """Return jobs of a few programs whose steps take the same work each."""
    rng, at, found = random.Random(seed), 0.0, []
    for number in range(count):
        at += rng.expovariate(CORES / 60)
        program = rng.choice([*CURVES])
        seconds = rng.lognormvariate(4.5, 1.0)
        task = Task(
            program,
            at,
            seconds,
            CURVES[program],
            Shape(1, rng.choice([1, 2, CORES]), CORES),
            command=(program, f"{seconds:.0f}"),
            user=rng.choice(["ada", "grace"]),
            priority=rng.choice([0, 5]),
            expected=rng.choice([None, seconds]),
            steps=2 * seconds,
            starting=rng.uniform(1, 6),
            ending=rng.uniform(0, 3),
            fails_at=0.5 if rng.random() < 0.1 else None,
        )
        if waits and number % 3 == 0:
            task = replace(task, busy=rng.uniform(20, 40), idle=rng.uniform(0.5, 2))
        found.append(task)
    return found


def run(jobs: list[Task] | tuple[Task, ...], policy: str, cores: int = CORES) -> History:
    return simulate(jobs, policy, scenario(cores), spans=True).history


def agree(first: History, second: History, part: float) -> None:
    for name in ("makespan", "mean_turnaround"):
        one, other = getattr(first.summary, name), getattr(second.summary, name)
        assert other == pytest.approx(one, rel=part), name


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("policy", STEADY)
def test_it_takes_as_long_again(policy, seed):
    before = run(tasks(seed), policy)
    again = run(replayed(before, Assumed()).tasks, policy)
    agree(before, again, 0.02)
    for one, other in zip(before.jobs, again.jobs, strict=True):
        assert other.total_seconds == pytest.approx(one.total_seconds, rel=0.03)
        assert (other.outcome, other.user, other.command) == (one.outcome, one.user, one.command)
        assert (other.steps, other.steps_total) == pytest.approx((one.steps, one.steps_total))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_all_take_as_long_again_under_a_policy_that_decides_by_speeds(seed):
    before = run(tasks(seed), "efficient")
    agree(before, run(replayed(before, Assumed()).tasks, "efficient"), 0.02)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["fcfs-strict", "equal"])
def test_it_waits_for_input_as_often_and_as_long_again(policy):
    before = run(tasks(3, waits=True), policy)
    again = run(replayed(before, Assumed()).tasks, policy)
    agree(before, again, 0.02)
    off = []
    for one, other in zip(before.jobs, again.jobs, strict=True):
        assert other.idle_phases == one.idle_phases
        assert other.idle_seconds == pytest.approx(one.idle_seconds, rel=0.01, abs=0.01)
        off.append(abs(other.total_seconds / one.total_seconds - 1))
    assert max(off) < 0.15
    assert fmean(off) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["srpt", "lend+srpt"])
def test_each_has_the_work_it_had_under_a_policy_that_resizes_and_pauses(policy):
    off = []
    for seed in range(1, 6):
        jobs = tasks(seed)
        before = run(jobs, policy)
        assert any(record.resizes or record.paused_seconds for record in before.jobs)
        for task, found in zip(jobs, replayed(before, Assumed()).tasks, strict=True):
            off.append(abs(found.work / task.work - 1))
            assert (found.shape, found.priority, found.expected) == (
                task.shape,
                task.priority,
                task.expected,
            )
            assert found.starting == pytest.approx(task.starting, abs=0.02)
    # Few jobs are measured with too few numbers of cores to tell their curves.
    assert sum(each > 0.02 for each in off) < 0.05 * len(off)


def test_their_curves_are_those_they_had():
    before = run(tasks(1), "equal")
    off = [
        abs(task.curve.speedup(cores) / CURVES[task.name].speedup(cores) - 1)
        for task in replayed(before, Assumed()).tasks
        for cores in (2, 4, 8)
        if task.curve != Assumed().curve
    ]
    assert len(off) > 3 * 30
    assert fmean(off) < 0.05


@pytest.mark.slow
def test_on_another_machine_or_under_another_policy_it_takes_another_time():
    jobs = tasks(5)
    before = run(jobs, "equal")
    again = replayed(before, Assumed()).tasks
    for policy, cores in (("equal", 2 * CORES), ("equal", CORES // 2), ("fcfs-strict", CORES)):
        truth, found = run(jobs, policy, cores), run(again, policy, cores)
        assert found.summary.mean_turnaround == pytest.approx(
            truth.summary.mean_turnaround, rel=0.1
        )
        assert found.summary.mean_turnaround != pytest.approx(
            before.summary.mean_turnaround, rel=0.1
        )


# Histories, written down.


def only(found: History, assumed: Assumed | None = None) -> Workload:
    return replayed(found, assumed or Assumed())


def one(record: JobRecord, spans: list, **changes: object) -> tuple[JobRecord, list]:
    return changed(record, **changes), spans


SEEN = {
    "min": 1,
    "preferred": 2,
    "max": 4,
    "priority": 7,
    "weight": 2.5,
    "expected": 40.0,
    "speeds": [Speed(1, 1.0), Speed(2, 1.5)],
    "steps": 30.0,
    "steps_total": 30.0,
    "first_step_seconds": 3.0,
    "last_step_seconds": 2.0,
    "idle_seconds": 4.0,
    "idle_phases": 2,
}
LIFE = [(0, 10, "waiting", []), (10, 20, "running", [0]), (20, 45, "running", [0, 1])]


def test_work_is_what_its_curve_says_of_its_time_with_cores():
    workload = only(history(one(*job(1, "a", LIFE), **SEEN)))
    (task,) = workload.tasks
    # 7 s with 1 core after its start, 23 s with 2 before its end; 4 of these 30 s were idle.
    assert task.work == pytest.approx((7 * 1.0 + 23 * 1.5) * 26 / 30)
    assert (task.at, task.starting, task.ending) == (0.0, 3.0, 2.0)
    assert (task.idle, task.busy) == (2.0, pytest.approx(task.work / 3))
    assert (task.shape, task.priority, task.weight) == (Shape(1, 2, 4), 7, 2.5)
    assert (task.expected, task.steps, task.fails_at) == (40.0, 30.0, None)
    assert (task.name, task.user, task.command) == ("a", "ada", ("python", "a"))
    assert workload.left_out == {}
    assert workload.assumed == (
        "1 of 1 job: speeds with more cores than were measured are by the law that fits these",
    )


def test_a_record_of_an_older_controller_is_assumed_to_work_all_the_time():
    workload = only(
        history(job(1, "a", LIFE)),
        Assumed(curves.amdahl(0.5), "amdahl:0.5", starting=2.0),
    )
    (task,) = workload.tasks
    assert task.work == pytest.approx(8 + 25 * curves.amdahl(0.5).speedup(2))
    assert (task.shape, task.starting, task.ending) == (Shape(1, 2, 2), 2.0, 0.0)
    assert (task.priority, task.weight, task.steps, task.idle) == (0, 1.0, None, 0.0)
    assert [each.partition(": ")[2] for each in workload.assumed] == [
        "speeds are known for fewer than two numbers of cores, so the speed-up is amdahl:0.5",
        "the requested cores are unknown, so they are the most they had, and at least 1",
        "the start-up time is unknown, so it is 2 s",
        "waits for input are unknown, so there are none",
    ]
    rigid = only(history(job(1, "a", LIFE)), Assumed(malleable=False))
    assert rigid.tasks[0].shape == Shape(2, 2, 2)


def test_without_spans_it_had_the_mean_of_its_cores():
    record, _ = one(*job(1, "a", LIFE), **SEEN | {"idle_seconds": 0.0, "idle_phases": 0})
    workload = only(history((record, [])))
    # 10 s with 1 core and 25 s with 2, of which the first 3 and the last 2 do not count.
    assert workload.tasks[0].work == pytest.approx(7 * 1.0 + 23 * 1.5)
    assert any("so it is its mean" in each for each in workload.assumed)


def test_a_span_that_was_lost_is_like_the_others():
    record, spans = one(*job(1, "a", [(0, 10, "running", [0]), (10, 20, "running", [0])]))
    (task,) = only(history((record, spans[:1]))).tasks
    assert task.work == pytest.approx(20.0)


def test_time_without_a_core_of_its_own_was_idle_first():
    life = [(0, 10, "running", [0, 1]), (10, 16, "running", []), (16, 20, "running", [0, 1])]
    found = one(*job(1, "a", life), idle_seconds=4.0, idle_phases=1)
    (task,) = only(history(found)).tasks
    # 14 s with 2 cores, and 2 s on a lent one, which it shared.
    assert task.work == pytest.approx(14 * 2 + 2 * 0.5)


def test_arrivals_count_from_the_first_that_is_simulated():
    early = job(1, "early", [(0, 5, "waiting", [])], "cancelled")
    first = job(2, "first", [(100, 110, "running", [0])])
    second = job(3, "second", [(103, 110, "waiting", []), (110, 120, "running", [0])])
    workload = only(history(early, second, first))
    assert [(task.name, task.at) for task in workload.tasks] == [("first", 0.0), ("second", 3.0)]


def test_what_never_ran_is_left_out():
    waited = job(1, "a", [(0, 5, "waiting", [])], "cancelled")
    again = job(2, "b", [(0, 5, "waiting", [])], "cancelled")
    record, spans = job(3, "c", [(0, 5, "waiting", [])], "failed")
    briefly = changed(record, started=ZERO + 5), spans
    workload = only(history(waited, again, briefly))
    assert workload.tasks == ()
    assert workload.left_out == {"ended before they had cores": 2, "had cores for no time": 1}
    assert workload.assumed == ()


def test_an_empty_history_is_an_empty_workload():
    assert only(history()) == Workload("history", ())


@pytest.mark.parametrize("outcome", ["failed", "cancelled", "interrupted", "unknown"])
def test_what_did_not_finish_ends_when_it_ended(outcome):
    record, spans = one(*job(1, "a", LIFE, outcome), **SEEN, exit_code=1)
    workload = only(history((record, spans)))
    (task,) = workload.tasks
    assert (task.fails_at, task.ending) == (1.0, 0.0)
    again = run(workload.tasks, "fcfs-strict", 1)
    assert again.jobs[0].outcome == "failed"
    is_noted = any("unknown end" in each for each in workload.assumed)
    assert is_noted == (outcome != "failed")


def test_steps_it_announced_and_did_not_do_are_announced_again():
    found = one(*job(1, "a", LIFE, "failed"), **SEEN | {"steps_total": 90.0})
    (task,) = only(history(found)).tasks
    assert (task.steps, task.told) == (30.0, 90.0)


def test_a_missing_speed_with_one_core_is_by_the_law():
    speeds = [Speed(2, 1 / 0.55), Speed(4, 1 / 0.325)]  # A tenth is serial.
    found = one(*job(1, "a", LIFE), **SEEN | {"speeds": speeds})
    workload = only(history(found))
    curve = workload.tasks[0].curve
    expected = [curves.amdahl(0.1).speedup(cores) for cores in (1, 2, 4, 8)]
    assert [curve.speedup(cores) for cores in (1, 2, 4, 8)] == pytest.approx(expected)
    assert curve.speedup(3) == pytest.approx((expected[1] + expected[2]) / 2)
    assert curve.speedup(0) == 0.0
    assert any("the speed with 1 core is not known" in each for each in workload.assumed)


def test_jobs_of_a_name_complete_each_other_whatever_their_steps():
    low = one(*job(1, "a", LIFE), **SEEN | {"speeds": [Speed(1, 10.0), Speed(2, 19.0)]})
    high = one(*job(2, "a", LIFE), **SEEN | {"speeds": [Speed(2, 1.9), Speed(4, 3.4)]})
    # It says nothing by itself, and its steps are of yet another size.
    single = one(*job(3, "a", LIFE), **SEEN | {"speeds": [Speed(4, 700.0)]})
    silent = one(*job(4, "a", LIFE), **SEEN | {"speeds": None})
    grace = one(*job(5, "a", LIFE), **SEEN | {"speeds": None, "user": "grace"})
    other = one(*job(6, "b", LIFE), **SEEN | {"speeds": None})
    workload = only(history(low, high, single, silent, grace, other))
    *alike, stranger = workload.tasks
    for task in alike:
        found = [task.curve.speedup(cores) for cores in (1, 2, 4)]
        assert found == pytest.approx([1.0, 1.9, 3.4])
    assert stranger.curve == curves.LINEAR
    assert "3 of 6 jobs: the speed-up is that of other jobs of the same name" in workload.assumed


def test_jobs_of_the_same_user_count_more_than_others_of_that_name():
    ada = one(*job(1, "a", LIFE), **SEEN | {"speeds": [Speed(1, 1.0), Speed(2, 1.9)]})
    grace = [
        one(*job(2, "a", LIFE), **SEEN | {"speeds": speeds, "user": "grace"})
        for speeds in ([Speed(1, 1.0), Speed(2, 1.2)], None)
    ]
    tasks = only(history(ada, *grace)).tasks
    assert [task.curve.speedup(2) for task in tasks] == pytest.approx([1.9, 1.2, 1.2])


def test_speeds_of_one_command_are_of_the_same_steps():
    small = one(*job(1, "a", LIFE), **SEEN | {"speeds": [Speed(1, 10.0)]})
    large = one(*job(2, "a", LIFE), **SEEN | {"speeds": [Speed(4, 25.0)]})
    other = one(*job(3, "a", LIFE), **SEEN | {"speeds": [Speed(4, 1.0)], "command": ["b"]})
    first, second, third = only(history(small, large, other)).tasks
    assert first.curve.speedup(4) == second.curve.speedup(4) == pytest.approx(2.5)
    # Of another command only how it scales counts.
    assert third.curve.speedup(4) == pytest.approx(2.5)


def test_jobs_that_are_not_simulated_tell_how_others_scale():
    alone, _ = one(*job(1, "a", LIFE), **SEEN | {"speeds": [Speed(1, 10.0), Speed(2, 11.0)]})
    seen = one(*job(2, "a", LIFE), **SEEN | {"speeds": [Speed(1, 3.0)], "command": ["b"]})
    (task,) = replayed(history(seen), Assumed(), [alone]).tasks
    assert task.curve.speedup(2) == pytest.approx(1.1)


def test_waits_for_input_are_no_part_of_a_speed():
    waited = {"first_step_seconds": 10.0, "first_idle_seconds": 6.0, "last_step_seconds": 0.0}
    waited |= {"idle_seconds": 20.0, "idle_phases": 2, "steps": 100.0, "command": ["read"]}
    narrow = one(*job(1, "a", [(0, 40, "running", [0])]), **waited, speeds=[Speed(1, 3.0)])
    wide = one(*job(2, "a", [(0, 35, "running", [0, 1])]), **waited, speeds=[Speed(2, 4.0)])
    first, second = only(history(narrow, wide)).tasks
    # 100 steps in 10 s and in 5 s.
    assert first.curve.speedup(2) == second.curve.speedup(2) == pytest.approx(2.0)
    assert (first.starting, first.fetching, first.work) == (4.0, 6.0, pytest.approx(10.0))


def test_what_it_waits_for_at_first_takes_no_core():
    waits = Task("a", 0.0, 10.0, starting=2.0, fetching=30.0, steps=10.0)
    other = Task("b", 0.0, 20.0, steps=10.0)
    kept = run([waits, other], "fcfs-strict", 1)
    lent = run([waits, other], "lend+fcfs-strict", 1)
    assert kept.summary.makespan == pytest.approx(62.0, abs=0.1)
    assert lent.summary.makespan == pytest.approx(42.0, abs=5.0)
    (found,) = (each for each in lent.jobs if each.name == "a")
    assert found.first_idle_seconds == pytest.approx(30.0, abs=0.1)


def test_nothing_is_faster_than_its_cores():
    found = one(*job(1, "a", LIFE), **SEEN | {"speeds": [Speed(1, 0.1), Speed(2, 9.0)]})
    assert only(history(found)).tasks[0].curve.speedup(2) == 2.0


def test_a_job_that_only_waited_for_input_still_takes_its_time():
    found = one(
        *job(1, "sleep", [(0, 100, "running", [0])]), idle_seconds=100.0, idle_phases=1, max=None
    )
    workload = only(history(found))
    assert run(workload.tasks, "equal").jobs[0].total_seconds == pytest.approx(100.0, abs=0.1)


def test_an_array_learns_together():
    found = [one(*job(n, f"fold[{n}]", LIFE), **SEEN) for n in (1, 2)]
    workload = only(history(*found))
    assert [task.name for task in workload.tasks] == ["fold", "fold"]
    assert any("2 of 2 jobs: they have the name of their array" in n for n in workload.assumed)
    lookalikes = ("[1]", "a[b]", "a[1", "a]")
    names = [task.name for task in only(history(*(job(1, n, LIFE) for n in lookalikes))).tasks]
    assert names == [*lookalikes]


def test_memory_and_gpus_are_not_simulated_and_that_is_said():
    found = one(*job(1, "a", LIFE), **SEEN, gpus=[0])
    assert any("memory and GPUs" in each for each in only(history(found)).assumed)


def test_a_record_that_cannot_be_is_refused_by_its_id():
    found = one(*job(12, "a", LIFE), **SEEN | {"min": 9})
    with pytest.raises(ValueError, match=r"^job 12 of the history cannot be simulated: a shape"):
        only(history(found))
