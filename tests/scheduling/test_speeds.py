# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How fast a job trains with how many cores, as its progress reports tell."""

from __future__ import annotations

import pytest

from tf_malleable.model import Grant, Job, Rate, Shape
from tf_malleable.policies import registry
from tf_malleable.scheduling.decision.policy_input import Known, rates_of
from tf_malleable.scheduling.records.lessons import Lessons
from tf_malleable.scheduling.records.speeds import Speedometer


def reported(speed: Speedometer, rate: float, begin: int, end: int) -> Speedometer:
    """Return it after a report each second, from one second to another."""
    for second in range(begin, end + 1):
        speed = speed.report((speed.steps or 0) + rate, None, float(second))
    return speed


def slow_with_two() -> Speedometer:
    """Return what is known after ten seconds with two cores and ten with one."""
    speed = reported(Speedometer().change(2, 0.0), 5, 0, 10)
    return reported(speed.change(1, 10.0), 8, 11, 20)


def granted(speed: Speedometer, now: float) -> int:
    """Return the cores that a job alone on two is granted."""
    job = Job(
        id="1",
        submitted=0.0,
        shape=Shape(1, 2, 2),
        state="running",
        started=0.0,
        grant=Grant(frozenset({0})),
        steps_done=speed.steps,
        rates=speed.lately,
    )
    return registry.create("efficient").decide([job], 2, now).cores["1"]


def test_speeds_are_those_of_each_number_of_cores():
    assert slow_with_two().rates == (Rate(1, 8), Rate(2, 5))


def test_the_first_second_after_a_change_does_not_count():
    speed = reported(Speedometer().change(2, 0.0), 5, 0, 10).change(1, 10.0)
    assert [rate.cores for rate in reported(speed, 8, 11, 11).rates] == [2]


def test_a_number_of_cores_that_was_slow_is_tried_again_after_ten_minutes():
    speed = slow_with_two()
    assert granted(speed, 20.0) == 1
    speed = reported(speed, 8, 21, 609)
    assert granted(speed, 609.0) == 1
    speed = reported(speed, 8, 610, 612)
    assert speed.lately == (Rate(1, 8),)
    assert granted(speed, 612.0) == 2
    assert [rate.cores for rate in speed.rates] == [1, 2]


def test_a_number_of_cores_tried_again_is_trusted_again():
    speed = reported(slow_with_two(), 8, 21, 700).change(2, 700.0)
    speed = reported(speed, 16, 701, 760)
    assert [rate.cores for rate in speed.lately] == [1, 2]
    assert granted(speed, 760.0) == 2


def test_a_job_that_says_nothing_for_long_is_known_as_before():
    speed = slow_with_two()
    assert reported(speed, 8, 5000, 5000).rates[1] == Rate(2, 5)
    assert speed.lately == speed.rates


def known(speed: Speedometer, *rates: Rate) -> Known:
    return Known(speed, rates_of(speed, Lessons(rates)))


def test_news_are_first_steps_new_speeds_and_the_end():
    new = Speedometer().change(2, 0.0)
    begun = new.report(1, 30, 1.0)
    nothing = Lessons()
    assert known(new).is_outdated_by(begun, nothing)
    assert not known(begun).is_outdated_by(begun, nothing)
    measured = begun.report(3, 30, 2.0)
    assert known(begun).is_outdated_by(measured, nothing)
    assert not known(measured).is_outdated_by(measured.report(5, 30, 3.0), nothing)
    assert known(measured).is_outdated_by(measured.report(9, 30, 3.0), nothing)
    nearly = measured.report(5, 30, 3.0)
    assert known(nearly).is_outdated_by(nearly.report(30, 30, 15.5), nothing)
    assert known(measured).is_outdated_by(measured.report(5, 40, 3.0), nothing)


def test_a_speed_that_was_expected_or_hardly_changes_is_no_news():
    speed = reported(Speedometer().change(2, 0.0), 100, 0, 30)
    assert not known(speed).is_outdated_by(reported(speed, 104, 31, 90), Lessons())
    assert known(speed).is_outdated_by(reported(speed, 120, 31, 90), Lessons())
    begun = Speedometer().change(2, 0.0).report(100, None, 1.0)
    learned = Rate(2, 98.0)
    assert not known(begun, learned).is_outdated_by(
        begun.report(200, None, 2.0), Lessons((learned,))
    )


def test_a_second_in_which_steps_began_or_ended_tells_no_speed():
    speed = Speedometer().change(1, 0.0)
    for steps, now in ((0, 1.0), (0, 2.0), (10, 3.0)):
        speed = speed.report(steps, 100, now)
    assert (speed.recent, speed.rates) == (None, ())
    for steps, now in ((60, 4.0), (100, 5.0), (100, 6.0)):
        speed = speed.report(steps, 100, now)
    assert speed.rates == (Rate(1, 50.0),)


def test_the_last_second_tells_a_speed_that_nothing_else_does():
    speed = Speedometer().change(1, 0.0).report(10, 60, 2.0).report(60, 60, 3.0)
    assert speed.rates == (Rate(1, 50.0),)


def test_the_learned_shape_counts_even_if_it_was_measured_with_other_numbers_of_cores():
    # Amdahl's law with a serial part of 10 %: 10, 18.2, 30.8 and 47.1 steps a second.
    learned = tuple(Rate(n, 10 / (0.1 + 0.9 / n)) for n in (1, 2, 8))
    speed = reported(Speedometer().change(4, 0.0), 2 * 10 / (0.1 + 0.9 / 4), 0, 30)
    found = dict(rates_of(speed, Lessons(learned)))
    assert found.keys() == {1, 2, 4, 8}
    # Steps are half as large as those of earlier jobs.
    assert found[8] == pytest.approx(20 / (0.1 + 0.9 / 8), rel=0.01)
    assert found[1] == pytest.approx(20.0, rel=0.01)
    # One speed has no shape.
    assert rates_of(speed, Lessons(learned[:1])) == speed.rates


def test_seconds_in_which_a_job_waits_for_its_input_tell_no_speed():
    speed = reported(Speedometer().change(3, 0.0), 4, 0, 10)
    for second in range(11, 16):
        speed = speed.report(44, None, float(second), 1.0)
    assert speed.rates == (Rate(3, 4),)
    # It waits for half of a second, and computes in the rest.
    speed = speed.report(46, None, 16.0, 0.5)
    assert speed.rates == (Rate(3, 4),)
    # Samples of the CPU time are not of the very time between two reports.
    assert speed.report(46, None, 17.0, 1.05).rates == speed.rates


def test_steps_that_end_without_the_cpu_count_with_their_whole_time():
    speed = Speedometer().change(2, 0.0).report(1, None, 0.0)
    for second in range(1, 31):
        # A step of five seconds on a GPU.
        speed = speed.report(1 + second // 5, None, float(second), 0.98)
    assert speed.rates[0].steps_per_second == pytest.approx(0.2, rel=0.05)
    # A job that then computes waits for its input.
    speed = reported(speed.change(1, 30.0), 4, 31, 40)
    for second in range(41, 46):
        speed = speed.report(speed.steps, None, float(second), 1.0)
    assert reported(speed, 4, 46, 50).rates[0] == Rate(1, 4)


def test_how_fast_a_job_is_at_the_moment_includes_its_waits():
    speed = reported(Speedometer().change(3, 0.0), 4, 0, 10)
    for second in range(11, 30):
        speed = speed.report(44, None, float(second), 1.0)
    assert speed.recent < 0.01


def test_waits_count_neither_for_parallel_regions():
    speed = Speedometer().change(2, 0.0)
    for second in range(10):
        speed = speed.report_regions(100.0 * (second + 1), float(second))
    for second in range(10, 15):
        speed = speed.report_regions(1000.0, float(second), 1.0)
    assert speed.rates == (Rate(2, 100),)


def test_parallel_regions_tell_the_speed_of_a_job_until_it_reports_steps():
    speed = Speedometer().change(1, 0.0)
    for second in range(11):
        speed = speed.report_regions(1000.0 * second, float(second))
    assert speed.rates == (Rate(1, 1000.0),)
    assert (speed.steps, speed.total, speed.recent) == (None, None, None)
    assert known(Speedometer()).is_outdated_by(speed, Lessons())
    # What is known of regions says nothing of steps.
    stepping = speed.report(5, 30, 11.0)
    assert stepping.rates == ()
    stepping = reported(stepping, 5, 12, 14)
    assert stepping.rates == (Rate(1, 5),)
    assert stepping.report_regions(1e6, 15.0) is stepping
