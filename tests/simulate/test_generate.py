# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Generated workloads."""

from __future__ import annotations

import statistics
from itertools import pairwise

import pytest

from tests.support.complaints import complaint
from tf_malleable.model import Shape
from tf_malleable.simulate.engine.curves import LINEAR, amdahl, measured, usl
from tf_malleable.simulate.engine.workload import Assumed
from tf_malleable.simulate.workloads.generate import generate

EVERYTHING = (
    "jobs=200,load=0.8,sizes=lognormal,mean=600,sigma=1.5,max-cores=16,"
    "curves=amdahl:0.05|usl:0.1,0.001|1=1,2=1.9,users=5,idle=0.1"
)


def works(spec, seed=1):
    return [task.seconds for task in generate(spec, 8, seed, Assumed()).tasks]


def test_the_same_seed_gives_the_same_tasks():
    once, again = (generate(EVERYTHING, 32, 7, Assumed()) for _ in range(2))
    assert once == again
    assert generate(EVERYTHING, 32, 8, Assumed()).tasks != once.tasks


def test_jobs_are_as_described():
    tasks = generate(EVERYTHING, 32, 7, Assumed()).tasks
    assert len(tasks) == 200
    assert {task.curve for task in tasks} == {
        amdahl(0.05),
        usl(0.1, 0.001),
        measured({1: 1, 2: 1.9}),
    }
    assert {task.user for task in tasks} == {f"user{number}" for number in range(1, 6)}
    assert {task.shape for task in tasks} == {Shape(1, 16, 16)}
    (waiting,) = {task.idle / (task.idle + task.busy) for task in tasks}
    assert waiting == pytest.approx(0.1)


def test_what_is_not_described_is_as_assumed():
    assumed = Assumed(amdahl(0.2), "amdahl:0.2", malleable=False, starting=3.0, steps=None)
    tasks = generate("jobs=3", 4, 7, assumed).tasks
    assert {(t.curve, t.shape, t.starting, t.steps, t.idle) for t in tasks} == {
        (amdahl(0.2), Shape(4, 4, 4), 3.0, None, 0.0)
    }
    assert {task.user for task in tasks} == {"user1"}


@pytest.mark.parametrize("sizes", ["constant", "exponential", "lognormal", "pareto"])
def test_the_offered_load_is_the_one_asked_for(sizes):
    tasks = generate(f"jobs=2000,load=0.75,sizes={sizes}", 8, 3, Assumed()).tasks
    arrivals = [task.at for task in tasks]
    assert arrivals == sorted(arrivals)
    assert arrivals[0] == 0
    offered = sum(task.seconds for task in tasks) / (8 * arrivals[-1])
    assert offered == pytest.approx(0.75, rel=0.01)


def test_arrivals_are_a_poisson_process():
    tasks = generate("jobs=4000,sizes=constant", 8, 3, Assumed()).tasks
    gaps = [later.at - task.at for task, later in pairwise(tasks)]
    # The standard deviation of exponential gaps is their mean.
    assert statistics.stdev(gaps) / statistics.mean(gaps) == pytest.approx(1, abs=0.06)


@pytest.mark.parametrize("arrivals", ["poisson", "bursts", "daily"])
def test_the_load_does_not_depend_on_the_kind_of_arrivals(arrivals):
    tasks = generate(f"jobs=4000,load=0.75,arrivals={arrivals}", 8, 3, Assumed()).tasks
    at = [task.at for task in tasks]
    assert at == sorted(at)
    assert at[0] == 0
    assert sum(task.seconds for task in tasks) / (8 * at[-1]) == pytest.approx(0.75, rel=0.02)


def test_bursts_are_groups_of_ten_jobs_on_average():
    tasks = generate("jobs=4000,arrivals=bursts", 8, 3, Assumed()).tasks
    assert 4000 / len({task.at for task in tasks}) == pytest.approx(10, rel=0.15)


def test_daily_arrivals_rise_and_fall_four_times():
    tasks = generate("jobs=4000,arrivals=daily", 8, 3, Assumed()).tasks
    last = tasks[-1].at
    eighths = [0] * 16
    for task in tasks:
        eighths[min(15, int(16 * task.at / last))] += 1
    # Each day has four sixteenths: night, morning, afternoon, night.
    nights = sum(eighths[0::4]) + sum(eighths[3::4])
    assert nights / 4000 == pytest.approx(0.5 - 0.9 / 3.1416, abs=0.03)


@pytest.mark.parametrize(
    "spec",
    [
        "sizes=exponential",
        "sizes=lognormal,sigma=0.7",
        "sizes=pareto,alpha=2.5,spread=50",
        "sizes=pareto,alpha=1,spread=20",
        "sizes=pareto,alpha=0.5,spread=30",
    ],
)
def test_sizes_have_their_mean(spec):
    sizes = works(f"jobs=20000,mean=50,{spec}")
    assert statistics.mean(sizes) == pytest.approx(50, rel=0.04)


def test_sizes_have_their_spread():
    assert set(works("sizes=constant,mean=50")) == {50}
    bounded = works("jobs=5000,sizes=pareto,alpha=0.5,spread=30")
    assert 28 < max(bounded) / min(bounded) <= 30.001
    assert statistics.stdev(works("jobs=5000,mean=50")) == pytest.approx(50, rel=0.1)


def test_steps_are_in_proportion_to_the_work():
    for task in generate("jobs=20,mean=60", 8, 3, Assumed(steps=120)).tasks:
        assert task.steps == pytest.approx(2 * task.seconds)


def test_jobs_with_the_same_curve_run_the_same_program():
    workload = generate("jobs=20,curves=linear|amdahl:0.1", 8, 3, Assumed())
    named = {"linear": LINEAR, "amdahl:0.1": amdahl(0.1)}
    assert all(task.curve == named[task.name] for task in workload.tasks)
    assert len({task.command for task in workload.tasks}) == 20


def test_what_is_assumed_is_said():
    assert generate("jobs=2", 8, 3, Assumed(starting=2.0)).assumed == (
        "every job's speed-up curve is linear",
        "jobs with the same curve run the same program",
        "starting takes 2 s on one core",
        "no job waits for input",
        "a job of mean work reports 100 steps, others in proportion",
    )
    assert generate("curves=linear,idle=0.25", 8, 3, Assumed(steps=None)).assumed == (
        "jobs with the same curve run the same program",
        "starting takes no time",
        "every job waits 15 s for input after each 45 s of work on one core",
        "no job reports steps",
    )


KEYS = "jobs, load, arrivals, sizes, mean, sigma, alpha, spread, max-cores, curves, users, idle"
FORM = f"a workload must be described by KEY=VALUE,KEY=VALUE,… with {KEYS}, not by"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", f"{FORM} ''"),
        ("job=5", f"{FORM} 'job=5'"),
        ("jobs=5,cores=2", f"{FORM} 'cores=2'"),
        ("jobs", f"{FORM} 'jobs'"),
        ("jobs=5,jobs=6", "jobs must be given only once"),
        ("jobs=0", "jobs must be an integer from 1 to 10000000, not '0'"),
        ("jobs=1.5", "jobs must be an integer from 1 to 10000000, not '1.5'"),
        ("jobs=5,many", "jobs must be an integer from 1 to 10000000, not '5,many'"),
        ("load=0", "load must be a number above 0, at most 100, not '0'"),
        ("load=nan", "load must be a number above 0, at most 100, not 'nan'"),
        ("mean=-1", "mean must be a number above 0, at most 1e+09, not '-1'"),
        ("sizes=normal", "sizes must be constant, exponential, lognormal, pareto, not 'normal'"),
        ("arrivals=weekly", "arrivals must be poisson, bursts, daily, not 'weekly'"),
        ("sizes=lognormal,sigma=9", "sigma must be a number above 0, at most 5, not '9'"),
        ("sizes=pareto,alpha=0", "alpha must be a number above 0, at most 10, not '0'"),
        ("sizes=pareto,spread=1", "spread must be a number above 1, at most 1e+09, not '1'"),
        ("sigma=1", "sigma must be given only with sizes=lognormal, not exponential"),
        (
            "alpha=2,sizes=constant",
            "alpha must be given only with sizes=pareto, not constant",
        ),
        ("max-cores=0", "max-cores must be an integer from 1 to 65536, not '0'"),
        ("users=x", "users must be an integer from 1 to 10000, not 'x'"),
        ("idle=1", "idle must be a number from 0 to 0.99, not '1'"),
        ("curves=amdahl:7", "a serial part must be 0 … 1, not 7"),
    ],
)
def test_a_bad_description_is_an_error(spec, message):
    assert complaint(lambda: generate(spec, 8, 1, Assumed())) == message


def test_there_must_be_cores():
    heard = complaint(lambda: generate("jobs=1", 0, 1, Assumed()))
    assert heard == "a workload must be generated for at least 1 core, not 0"
