# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Who is nearly done goes first; cores go where they help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tf_malleable.model import Grant, Job, Machine, Rate, Shape
from tf_malleable.policies.registry import create

NOW = 100.0
SHAPE = Shape(1, 1, 8)


def job(name: str, submitted: float = 0.0, shape: Shape = SHAPE, **about: object) -> Job:
    return replace(Job(name, shape, submitted=submitted, since=submitted), **about)


def running(name: str, cpus: set[int], **about: object) -> Job:
    grant = Grant(frozenset(cpus))
    return job(name, state="running", started=1.0, grant=grant, **about)


def amdahl(serial: float, *counts: int, speed: float = 1.0) -> tuple[Rate, ...]:
    return tuple(Rate(n, speed / (serial + (1 - serial) / n)) for n in counts)


def counts(policy: str, cpus: int, *jobs: Job) -> dict[str, int]:
    grants = create(policy).allocate(jobs, Machine.flat(cpus), NOW).grants
    return {name: len(grant.cpus) for name, grant in grants.items()}


RUN_TIMES = {"short": 10.0, "usual": 30.0, "long": 10_000.0}


# More than all cores could have done since a job of these tests was submitted: none was held up.
DONE = 1000.0 * NOW


def left(name: str, steps: float, serial: float = 0.5, **about: object) -> Job:
    rates = amdahl(serial, 1, 2)
    return job(name, steps_done=DONE, steps_total=DONE + steps, rates=rates, **about)


def test_least_remaining_work_goes_first():
    assert counts("srpt", 1, left("long", 50), left("short", 20)) == {"short": 1}


NARROW, WIDE, ALL = Shape(1, 1, 1), Shape(8, 8, 8), Shape(64, 64, 64)


def test_a_wide_job_goes_before_a_narrow_one_that_would_leave_cores_idle():
    narrow = left("narrow", 40, shape=NARROW)
    assert counts("srpt", 8, narrow, left("wide", 50, shape=WIDE)) == {"wide": 8}
    # Of half the length of the wide one, even if that would never have any core.
    almost_over = left("narrow", 5, shape=NARROW)
    assert counts("srpt", 8, almost_over, left("wide", 50, shape=WIDE)) == {"narrow": 1}


def test_a_wide_job_that_cannot_run_soon_leaves_cores_to_others():
    urgent = left("urgent", 40, shape=NARROW, priority=1)
    assert counts("srpt", 8, urgent, left("wide", 50, shape=WIDE)) == {"urgent": 1}
    silent = running("silent", {0}, shape=NARROW, run_seconds=300.0)
    narrow = left("narrow", 40, shape=NARROW)
    assert counts("srpt", 8, silent, narrow, left("wide", 50, shape=WIDE)) == {
        "silent": 1,
        "narrow": 1,
    }


def test_of_equal_jobs_on_many_cores_none_has_more_than_one_before_it():
    equal = [left(str(n), 100, 0.0008, submitted=n, shape=Shape(1, 256, 256)) for n in range(5)]
    cores = counts("srpt", 256, *equal)
    found = [cores.get(str(n), 0) for n in range(5)]
    assert found == sorted(found, reverse=True)
    assert sum(found) == 256
    # One that is far shorter than the others has most cores.
    short = left("0", 5, 0.0008, submitted=9, shape=Shape(1, 256, 256))
    beside = counts("srpt", 256, *equal[1:], short)
    assert beside["0"] == max(beside.values())


def test_of_jobs_of_unknown_length_none_has_more_cores_than_another():
    """They are not ordered by the time that they have run: the next to end may be any."""
    silent = [running(f"job {n}", {n}, run_seconds=10.0 * 4**n) for n in range(4)]
    assert sorted(counts("srpt", 8, *silent).values()) == [2, 2, 2, 2]
    known = amdahl(0.1, 1, 2, 4, 8)
    told = [
        running(
            f"job {n}",
            {n},
            run_seconds=10.0,
            rates=known,
            steps_done=DONE,
            steps_total=DONE + 100.0**n,
        )
        for n in range(1, 3)
    ]
    first, second = (counts("srpt", 8, *told).get(f"job {n}", 0) for n in (1, 2))
    assert first > second


def test_a_job_of_higher_priority_has_the_cores_that_speed_it_up():
    urgent, usual = left("urgent", 50, 0.01, priority=1), left("usual", 50, 0.01)
    alike = counts("srpt", 8, left("a", 50, 0.01), left("b", 50, 0.01))
    assert counts("srpt", 8, usual, urgent)["urgent"] >= max(alike.values())


def test_cores_that_nobody_can_use_yet_are_shared_out_evenly():
    starting = [running(f"job {n}", {n}, run_seconds=2.0) for n in range(4)]
    assert sorted(counts("srpt", 8, *starting).values()) == [2, 2, 2, 2]


def test_one_speed_on_many_cores_tells_the_length_as_on_a_machine_of_this_size():
    # 22 times as fast as one core of 64 would be, so that it has 100 s left on one.
    longer = job("longer", shape=ALL, steps_done=0.0, steps_total=100.0, rates=(Rate(32, 22.3),))
    shorter = left("shorter", 80, serial=0.0, shape=ALL)
    assert counts("srpt", 64, longer, shorter) == {"shorter": 64}


def test_a_job_of_unknown_speedup_is_assumed_to_scale_as_those_that_are_known():
    shape = Shape(1, 64, 64)
    known = [replace(left(str(n), 100, 0.5), shape=shape) for n in range(3)]
    measured = running("new", {0}, shape=shape, rates=(Rate(1, 1.0),), steps_done=0.0)
    new = replace(measured, steps_total=100.0)
    # As fast as the others on one core, and as little on more.
    alike = counts("srpt", 64, *known, replace(left("new", 100, 0.5), shape=shape))
    assert counts("srpt", 64, *known, new)["new"] == pytest.approx(alike["new"], abs=1)
    # Without them, it may use many cores.
    scales = [replace(left(str(n), 100, 0.001), shape=shape) for n in range(3)]
    assert counts("srpt", 64, scales[0], new).get("new", 0) != alike["new"]


def test_steps_count_for_the_time_they_take():
    slow = replace(left("slow", 20), rates=amdahl(0.5, 1, 2, speed=0.1))
    assert counts("srpt", 1, slow, left("fast", 50)) == {"fast": 1}


def test_a_long_job_is_paused_for_a_short_one():
    long = left("long", 50, state="running", started=1.0, grant=Grant(frozenset({0})))
    assert counts("srpt", 1, long, left("short", 20)) == {"short": 1}


def test_about_equal_jobs_do_not_pause_each_other():
    def pauses(steps: float, other: float) -> bool:
        going = left("going", steps, state="running", started=1.0, grant=Grant(frozenset({0})))
        return "other" in counts("srpt", 1, going, left("other", other, submitted=1.0))

    lengths = range(40, 61)
    assert not any(pauses(steps, steps) for steps in lengths)
    # Steps of 5 % are between few lengths that differ by 2 %, and between all that do by 10 %.
    assert sum(pauses(steps, 0.98 * steps) for steps in lengths) < len(lengths) / 2
    assert all(pauses(steps, 0.9 * steps) for steps in lengths)


def test_a_job_that_has_not_reported_goes_first_so_that_it_does():
    assert counts("srpt", 1, left("known", 50), job("new", submitted=9.0)) == {"new": 1}


def test_only_a_job_whose_length_is_known_is_paused():
    silent = running("silent", {0}, run_seconds=300.0)
    assert counts("srpt", 1, silent, left("known", 200)) == {"silent": 1}
    begun = replace(silent, expected_seconds=600.0)
    assert counts("srpt", 1, begun, left("known", 200)) == {"known": 1}


def test_a_job_that_never_reports_is_not_resumed_first():
    silent = job("silent", state="paused", started=1.0, run_seconds=300.0)
    assert counts("srpt", 1, silent, left("known", 200)) == {"known": 1}
    assert counts("srpt", 1, silent, left("known", 400)) == {"silent": 1}


def test_it_is_looked_at_again_when_it_has_run_for_longer():
    over = running("over", {0}, run_seconds=300.0, expected_seconds=100.0)
    review = create("srpt").allocate([over, left("known", 400)], Machine.flat(1), NOW).review_at
    assert review is not None
    later = replace(over, run_seconds=300.0 + review - NOW + 1e-6)
    assert counts("srpt", 1, later, left("known", 300)) == {"known": 1}


def test_a_late_job_goes_first():
    one, short = left("one", 50), left("short", 5)
    late = replace(one, submitted=NOW - 600.0 - 3 * 50.0 * 1.0 - 1.0)
    assert counts("srpt", 1, one, short) == {"short": 1}
    assert counts("srpt", 1, late, short) == {"one": 1}


def test_a_wide_job_that_is_late_does_not_wait_for_those_that_come_and_say_nothing():
    silent = running("silent", {0})
    wide = job("wide", submitted=NOW - 10_000.0, shape=Shape(2, 2, 2))
    assert counts("srpt", 2, silent, wide, job("new")) == {"silent": 2}
    assert counts("srpt", 2, wide, job("new")) == {"wide": 2}


def test_cores_that_slow_it_down_stay_idle_under_srpt_too():
    slower = tuple(Rate(n, speed) for n, speed in [(1, 10.0), (2, 16.0), (4, 12.0), (8, 5.0)])
    assert counts("srpt", 8, job("a", rates=slower)) == {"a": 2}


def test_a_job_alone_tries_half_of_its_cores_if_it_has_only_been_measured_with_all():
    cores = set(range(8))
    alone = running("a", cores, rates=(Rate(8, 10.0),), steps_done=50.0, steps_total=10_050.0)
    decide = create("srpt").decide  # type: ignore[attr-defined]
    begun = decide([alone], 8, NOW)
    assert (begun.cores, begun.review_at) == ({"a": 4}, pytest.approx(NOW + 2 * (3.0 + 4 / 10.0)))
    trying = running(
        "a", {0, 1, 2, 3}, rates=alone.rates, steps_done=60.0, steps_total=10_050.0, resized=NOW - 2
    )
    assert decide([trying], 8, NOW).cores == {"a": 4}
    # As fast as with all, or faster: the rest stays idle.
    for speed in (10.0, 12.0):
        measured = replace(trying, rates=(Rate(4, speed), *alone.rates))
        assert decide([measured], 8, NOW).cores["a"] <= 4
    assert decide([replace(trying, rates=(Rate(4, 6.0), *alone.rates))], 8, NOW).cores == {"a": 8}


def test_a_trial_in_which_nothing_is_measured_ends_and_is_repeated_ever_more_seldom():
    about = {"rates": (Rate(2, 10.0),), "steps_done": 50.0}
    decide = create("srpt").decide  # type: ignore[attr-defined]
    trying = running("a", {0}, **about, resized=NOW - 7, run_seconds=90.0, shape=Shape(1, 2, 2))
    assert decide([trying], 2, NOW).cores == {"a": 2}
    failed = running("a", {0, 1}, **about, resized=NOW, run_seconds=90.0, shape=Shape(1, 2, 2))
    after = decide([failed], 2, NOW)
    assert (after.cores, after.review_at) == ({"a": 2}, NOW + 90.0)
    later = replace(failed, run_seconds=180.0)
    assert decide([later], 2, NOW + 90.0).cores == {"a": 1}


@pytest.mark.parametrize(
    "about",
    [
        {"steps_total": 60.0},  # It lasts a second.
        {"steps_done": None},
        {"rates": amdahl(0.1, 1, 2)},
        {"rates": (Rate(1, 5.0),)},
        {"elastic": True},
        {"shape": Shape(2, 2, 2)},
        {"rates": (Rate(2, 0.01),), "steps_total": 60.0},  # A trial takes minutes.
    ],
)
def test_a_trial_that_costs_too_much_or_tells_nothing_is_not_made(about):
    usual = {"rates": (Rate(2, 10.0),), "steps_done": 50.0, "shape": Shape(1, 2, 2)}
    alone = running("a", {0, 1}, **{**usual, **about})
    assert counts("srpt", 2, alone) == {"a": 2}


def test_nothing_is_tried_while_another_job_is_there():
    about = {"rates": (Rate(2, 10.0),), "steps_done": 50.0, "steps_total": 1050.0}
    alone = running("a", {0, 1}, shape=Shape(1, 2, 2), **about)
    longer = job("b", shape=Shape(2, 2, 2), expected_seconds=10_000.0)
    assert counts("srpt", 2, alone) == {"a": 1}
    assert counts("srpt", 2, alone, longer) == {"a": 2}


def test_cores_go_to_jobs_that_compute_before_those_that_start_or_end():
    known = amdahl(0.01, 1, 2, 4, 8)
    computing = left("computing", 5000, 0.01)
    ending = job("ending", rates=known, steps_done=30.0, steps_total=30.0)
    assert counts("srpt", 8, computing, ending) == {"computing": 7, "ending": 1}
    # Nobody else wants them.
    assert counts("srpt", 8, ending) == {"ending": 8}


def test_a_program_that_may_not_compute_yet_gets_fewer_cores_than_one_that_does():
    known = amdahl(0.05, 1, 2, 4, 8)
    short = job("short", rates=known, steps_done=DONE, steps_total=DONE + 10.0)
    new = job("short", rates=known)
    shape = Shape(1, 16, 16)
    beside = replace(left("long", 5000, 0.05), shape=shape)
    computes = counts("srpt", 16, beside, replace(short, shape=shape))["short"]
    assert 1 < counts("srpt", 16, beside, replace(new, shape=shape))["short"] < computes


def test_a_program_whose_start_is_known_has_its_cores_from_the_moment_it_computes():
    shape, known = Shape(1, 16, 16), amdahl(0.05, 1, 2, 4, 8)
    beside = replace(left("long", 5000, 0.05), shape=shape)

    def of_new(**about: object) -> tuple[int, float | None]:
        new = running("new", {0}, rates=known, shape=shape, startup_seconds=5.0, **about)
        found = create("srpt").decide([beside, new], 16, NOW)  # type: ignore[attr-defined]
        return found.cores["new"], found.review_at

    assert of_new(run_seconds=2.0) == (1, NOW + 3.0)
    computes, review_at = of_new(run_seconds=5.0)
    assert (computes, review_at) == (of_new(run_seconds=2.0, steps_done=1.0)[0], None)
    assert computes > 1
    # It prepares its data with several processes.
    assert of_new(run_seconds=2.0, used_cpus=4.0) == (computes, None)
    assert of_new(run_seconds=2.0, used_cpus=1.1)[0] == 1


def test_noise_moves_no_core_of_many():
    shape = Shape(1, 64, 64)
    a, b = (
        left(name, steps, 0.05, shape=shape, state="running", started=1.0, grant=Grant(cpus))
        for name, steps, cpus in [
            ("a", 50.0, frozenset(range(40))),
            ("b", 60.0, frozenset(range(40, 64))),
        ]
    )
    decide = create("srpt").decide  # type: ignore[attr-defined]
    settled = decide([a, b], 64, NOW).cores
    a, b = (
        replace(job, grant=Grant(frozenset(range(first, first + settled[job.id]))))
        for job, first in [(a, 0), (b, settled["a"])]
    )
    noisy = replace(b, rates=amdahl(0.052, 1, 2))
    assert decide([a, noisy], 64, NOW).cores == settled


def held_up(slowdown: float, shorts: int, short: float, long: float) -> list[Job]:
    """Return jobs that took so many times as long as alone: some short ones and then "long".

    Args:
        slowdown: So many times.
        shorts: Number of short ones.
        short: Steps left of each; no two have as many.
        long: Steps left of the other one.
    """
    # Alone on 64 cores, a job is 15.4 times as fast as on one.
    done = NOW * 15.4 / slowdown
    lefts = {**{f"short {n}": short + n for n in range(shorts)}, "long": long}
    return [
        job(
            name,
            shape=Shape(1, 64, 64),
            rates=amdahl(0.05, 1, 8, 64),
            steps_done=done,
            steps_total=done + steps,
        )
        for name, steps in lefts.items()
    ]


@pytest.mark.parametrize("shorts", [47, 48, 49, 59, 60, 95, 96])
def test_a_job_beside_the_longest_that_can_use_one_core_does_not_change_its_cores(shorts: int):
    """Where so many jobs are taken two or three for one, the longest stands for itself."""
    jobs = held_up(2.0, shorts, 900.0, 90_000.0)
    jobs[-2] = replace(jobs[-2], shape=NARROW)
    assert counts("srpt", 4 * len(jobs), *jobs)["long"] == 4


def test_poor_speedups_share_and_good_ones_queue():
    assert counts("srpt", 2, left("a", 20, 0.5), left("b", 50, 0.5)) == {"a": 1, "b": 1}
    assert counts("srpt", 2, left("a", 20, 0.01), left("b", 50, 0.01)) == {"a": 2}


def test_the_longer_the_present_jobs_took_the_earlier_all_are_to_end():
    """Then others keep arriving, and will wait for the last of them."""
    of_long = [
        counts("srpt", 64, *held_up(slowdown, 8, 50.0, 500.0))["long"]
        for slowdown in (0.01, 1.0, 1.1, 1.2, 1.5, 2.0, 20.0, 100.0)
    ]
    assert of_long[0] == of_long[1]
    assert of_long[1:6] == sorted(set(of_long[1:6]))
    # Under equal shares it has 7.1 cores: with them, all will end as early as they then would.
    assert of_long[5:] == [7, 7, 7]


@pytest.mark.parametrize("steps", [-1e9, 5e-324, 5e-322, 1e-160, 1e300])
def test_any_number_of_steps_may_be_said(steps):
    jobs = [job(name, rates=amdahl(0.05, 1, 8), steps_done=steps) for name in "ab"]
    assert counts("srpt", 8, *jobs) == {"a": 4, "b": 4}


def test_a_notebook_that_is_idle_for_days_does_not_show_that_the_machine_is_busy():
    shape, rates = Shape(1, 64, 64), amdahl(0.05, 1, 8, 64)
    jobs = [
        job(name, shape=shape, rates=rates, steps_done=DONE, steps_total=DONE + steps)
        for name, steps in (("short", 50.0), ("long", 500.0))
    ]
    found = [
        counts("srpt", 64, *jobs, job("idle", -days * 86_400.0, steps_done=20.0, rates=rates))
        for days in (0, 3)
    ]
    assert found[0] == found[1]


def test_cores_go_where_the_next_one_helps_most_in_proportion():
    good, poor = (
        job("good", rates=amdahl(0.05, 1, 2, 4)),
        job("poor", rates=amdahl(0.6, 1, 2, 4)),
    )
    # A fifth core makes the good one a fifth faster; a second one the poor one by a quarter.
    assert counts("efficient", 6, good, poor) == {"good": 4, "poor": 2}
    assert counts("efficient", 7, good, poor) == {"good": 5, "poor": 2}


def test_cores_that_help_nobody_stay_idle():
    slower = tuple(Rate(n, speed) for n, speed in [(1, 10.0), (2, 16.0), (4, 12.0), (8, 5.0)])
    assert counts("efficient", 8, job("a", rates=slower)) == {"a": 2}


def test_alike_speeds_with_nearly_as_many_cores_tell_nothing_of_fewer():
    alike = (Rate(4, 10.0), Rate(5, 9.9))
    assert counts("srpt", 8, job("a", rates=alike)) == {"a": 4}
    assert counts("srpt", 8, job("a", rates=(Rate(2, 10.0), *alike))) == {"a": 1}
    # It was measured with more cores than it may have now.
    assert counts("srpt", 8, job("a", rates=alike, shape=Shape(1, 2, 2))) == {"a": 2}


def test_small_steps_beside_others_and_everything_alone():
    known = job("known", rates=amdahl(0.2, 1, 2, 4, 8))
    new = running("new", {7}, rates=(Rate(1, 1.0),))
    assert counts("efficient", 8, known, new) == {"known": 6, "new": 2}
    tried = replace(new, rates=amdahl(0.0, 1, 2, 3))
    assert counts("efficient", 8, known, tried) == {"known": 4, "new": 4}
    assert counts("efficient", 8, tried) == {"new": 8}


def test_jobs_of_which_nothing_is_known_get_equal_shares():
    assert counts("efficient", 8, running("old", set(range(8))), job("new")) == {"old": 4, "new": 4}


def test_a_job_that_reports_no_steps_is_not_left_with_the_least():
    known = running("known", set(range(8)), rates=amdahl(0.05, 1, 2, 4, 8), steps_done=5.0)
    found = counts("efficient", 8, known, running("silent", {7}))
    assert found in ({"known": 5, "silent": 3}, {"known": 4, "silent": 4})


def test_a_count_that_was_never_measured_is_looked_at_again():
    reporting = running("a", {0}, rates=(Rate(1, 1.0),), steps_done=5.0)
    decide = create("efficient").allocate
    assert decide([reporting], Machine.flat(2), NOW).review_at == NOW + 2
    measured = replace(reporting, rates=amdahl(0.1, 1, 2))
    assert decide([measured], Machine.flat(2), NOW).review_at is None
    silent = replace(reporting, steps_done=None)
    assert decide([silent], Machine.flat(2), NOW).review_at is None


def test_noise_moves_no_core():
    a = running("a", {0, 1}, rates=amdahl(0.20, 1, 2, 3))
    b = running("b", {2}, rates=amdahl(0.19, 1, 2, 3))
    assert counts("efficient", 3, a, b) == {"a": 2, "b": 1}
    assert counts("efficient", 3, a, replace(b, rates=amdahl(0.02, 1, 2, 3))) == {"a": 1, "b": 2}


@pytest.mark.parametrize(("arrives", "first"), [(599.0, "poor"), (601.0, "good")])
def test_known_poor_scalers_have_a_head_start(arrives, first):
    good = job("good", rates=amdahl(0.05, 1, 2))
    poor = job("poor", submitted=arrives, rates=amdahl(0.9, 1, 2))
    assert counts("efficient", 1, good, poor) == {first: 1}


def test_unknown_jobs_come_first_come_first_served():
    poor = job("poor", submitted=1.0, rates=(Rate(1, 1.0),))
    assert counts("efficient", 1, job("a"), poor) == {"a": 1}


def test_what_ran_for_less_time_before_starts_first():
    long = job("long", expected_seconds=100.0)
    short = job("short", submitted=200.0, expected_seconds=10.0)
    assert counts("efficient", 1, long, short) == {"short": 1}
    assert counts("srpt", 1, long, short) == {"short": 1}


@pytest.mark.parametrize(("arrives", "first"), [(299.0, "short"), (301.0, "long")])
def test_nobody_waits_for_what_comes_later_than_three_times_its_run_time(arrives, first):
    long = job("long", expected_seconds=100.0)
    short = job("short", submitted=arrives, expected_seconds=0.0)
    assert counts("efficient", 1, long, short) == {first: 1}


def test_a_new_command_is_taken_to_run_for_the_median():
    known = [job(name, expected_seconds=seconds) for name, seconds in RUN_TIMES.items()]
    new = job("new", submitted=179.0)
    assert counts("efficient", 2, *known, new) == {"short": 1, "usual": 1}
    assert counts("efficient", 3, *known, new) == {"short": 1, "usual": 1, "new": 1}
    late = replace(new, submitted=29_971.0)
    assert counts("efficient", 3, *known, late) == {"short": 1, "usual": 1, "long": 1}


def test_what_runs_is_not_paused_for_what_is_shorter():
    long = running("long", {0}, expected_seconds=100.0)
    assert counts("efficient", 1, long, job("short", expected_seconds=1.0)) == {"long": 1}


def test_what_remains_of_the_run_time_before_counts():
    nearly = running("nearly done", {0}, expected_seconds=100.0, run_seconds=95.0)
    assert counts("srpt", 1, nearly, job("short", expected_seconds=20.0)) == {"nearly done": 1}
    begun = replace(nearly, run_seconds=5.0)
    assert counts("srpt", 1, begun, job("short", expected_seconds=20.0)) == {"short": 1}


def test_what_runs_for_longer_than_before_makes_room():
    jobs = [running("late", {0}, expected_seconds=100.0, run_seconds=99.0), left("known", 50)]
    allocation = create("srpt").allocate(jobs, Machine.flat(1), NOW)
    assert list(allocation.grants) == ["late"]
    assert allocation.review_at == pytest.approx(NOW + 1.0)
    late = replace(jobs[0], run_seconds=100.0)
    assert counts("srpt", 1, late, jobs[1]) == {"known": 1}


def test_steps_say_more_than_the_run_time_before():
    slow = left("slow", 1000, expected_seconds=1.0)
    assert counts("srpt", 1, slow, left("fast", 50)) == {"fast": 1}


# As many cores as in the finding: beside a job that scales perfectly others got one.
MANY = Shape(1, 64, 64)
POWERS = (1, 2, 4, 8, 16, 32, 64)
PERFECT = running(
    "perfect",
    set(range(64)),
    shape=MANY,
    rates=amdahl(0.0, *POWERS),
    steps_done=0.0,
    steps_total=10_000.0,
)


def test_a_new_job_has_a_good_part_of_its_equal_share_beside_one_that_scales():
    found = counts("efficient", 64, PERFECT, job("new", shape=MANY))
    assert sum(found.values()) == 64
    assert found["new"] >= 16
    assert found["perfect"] >= 16


@pytest.mark.parametrize("serial", [0.1, 0.3, 0.5, 0.8])
def test_a_job_that_scales_poorly_loses_only_cores_that_hardly_help_it(serial):
    rates = amdahl(serial, *POWERS)
    poor = job("poor", shape=MANY, rates=rates, steps_done=0.0, steps_total=10.0)
    found = counts("efficient", 64, PERFECT, poor)["poor"]
    speed = {n: 1 / (serial + (1 - serial) / n) for n in (found, 32)}
    assert speed[found] >= 0.85 * speed[32]
    assert found <= 44


def test_the_less_a_job_has_left_the_more_cores_it_gets():
    rates = amdahl(0.1, 1, 2, 4, 8)
    short, long = (
        job(name, rates=rates, steps_done=0.0, steps_total=steps)
        for name, steps in [("short", 10.0), ("long", 1000.0)]
    )
    found = counts("efficient", 8, short, long)
    assert found["short"] > found["long"] > 1
