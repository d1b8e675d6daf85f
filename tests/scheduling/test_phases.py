# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a job did with its cores, from its reports and its CPU time."""

from __future__ import annotations

import pytest

from tf_malleable.scheduling.records.phases import NOT_FOLLOWED, Course, Phases


def sampled(*stretches: tuple[float, float], phases: Phases | None = None) -> Phases:
    """Return the phases of a job that used so many CPUs for so many seconds each."""
    phases = phases or Phases()
    seconds = cpu_seconds = 0.0
    phases.sample(0.0, 0.0)
    for length, used in stretches:
        for _ in range(round(10 * length)):
            seconds += 0.1
            cpu_seconds += 0.1 * used
            phases.sample(cpu_seconds, seconds)
    return phases


def idle(phases: Phases, seconds: float = 100.0) -> tuple[float | None, int | None]:
    course = phases.course(seconds)
    return course.idle_seconds, course.idle_phases


def reported(*reports: tuple[float, float]) -> Phases:
    """Return what is known after reports of steps, each with its time."""
    phases = Phases()
    for steps, seconds in reports:
        phases.report(steps, seconds)
    return phases


def test_nothing_is_known_of_a_job_that_nobody_has_looked_at():
    assert Phases().course(10.0) == NOT_FOLLOWED


def test_its_start_and_end_are_before_the_first_and_after_the_last_report():
    course = reported((10, 3.0), (20, 4.0), (70, 9.0)).course(11.0)
    assert (course.first_step_seconds, course.last_step_seconds) == (2.0, 2.0)
    assert (course.idle_seconds, course.idle_phases) == (None, None)


def test_a_report_without_new_steps_is_no_step():
    course = reported((0, 1.0), (0, 2.0), (5, 3.0), (10, 4.0), (10, 5.0), (10, 6.0)).course(6.0)
    assert (course.first_step_seconds, course.last_step_seconds) == (2.0, 2.0)


def test_first_and_last_steps_within_a_second_are_as_fast_as_the_others():
    course = reported((0, 1.0), (20, 2.0), (100, 3.0), (180, 4.0), (220, 5.0), (220, 6.0)).course(
        6.5
    )
    assert (course.first_step_seconds, course.last_step_seconds) == (1.75, 2.0)


def test_slow_steps_are_not_before_the_report_without_them():
    course = reported(*((second // 10, float(second)) for second in range(1, 31))).course(35.0)
    assert (course.first_step_seconds, course.last_step_seconds) == (9.0, 5.0)


def test_another_process_that_begins_anew_goes_on_with_the_steps():
    course = reported((50, 3.0), (0, 4.0), (7, 5.0)).course(5.5)
    assert (course.first_step_seconds, course.last_step_seconds) == (3.0, 0.5)


def test_less_than_a_fifth_of_a_cpu_is_idle():
    assert idle(sampled((2, 0.0), (1, 0.19))) == (pytest.approx(3.0), 1)
    assert idle(sampled((2, 0.21), (1, 4.0))) == (0.0, 0)


def test_idle_phases_are_counted_one_by_one():
    phases = sampled((3, 4.0), (1, 0.0), (3, 2.0), (0.5, 0.1), (1, 1.0), (2, 0.0))
    assert idle(phases) == (pytest.approx(3.5), 3)


def test_idle_seconds_of_its_start_and_its_end_are_part_of_these():
    phases = sampled((2, 0.0))
    phases.report(1, 2.0)
    for tick in range(1, 41):  # Idle for a second, then busy.
        phases.sample(max(0, tick - 10) * 0.1, 2.0 + 0.1 * tick)
    phases.report(50, 6.0)
    for tick in range(1, 21):
        phases.sample(3.0, 6.0 + 0.1 * tick)
    course = phases.course(8.0)
    assert course.first_step_seconds == pytest.approx(2.0, abs=0.1)
    assert course.last_step_seconds == 2.0
    assert (course.idle_seconds, course.idle_phases) == (pytest.approx(1.0), 1)


def test_a_sample_just_after_a_pause_says_nothing():
    # It got cores again at 1.0 s of its time with cores, and was sampled 2 ms later.
    phases = sampled((1, 2.0))
    phases.sample(2.0, 1.002)
    phases.sample(2.2, 1.1)
    assert idle(phases) == (0.0, 0)


def test_processes_that_end_are_no_idleness():
    phases = sampled((1, 2.0))
    phases.sample(0.5, 1.1)
    phases.sample(0.7, 1.2)
    assert idle(phases) == (0.0, 0)


def test_of_a_job_from_before_a_restart_only_its_end_is_known():
    phases = sampled((1, 0.0), phases=Phases(whole=False))
    phases.report(70, 51.0)
    assert phases.course(60.0) == NOT_FOLLOWED  # Its last step may have been long ago.
    phases.report(80, 52.0)
    assert phases.course(60.0) == Course(last_step_seconds=8.0)


def test_what_it_waited_for_before_its_first_step_is_known():
    phases = sampled((2, 1.0), (6, 0.0))
    phases.report(1, 8.0)
    course = phases.course(9.0)
    assert (course.first_step_seconds, course.first_idle_seconds) == (8.0, pytest.approx(6.0))
    assert (course.idle_seconds, course.idle_phases) == (0.0, 0)
