# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""That a job which lends all its CPUs is seen to wake up, however little CPU time it gets."""

from __future__ import annotations

import pytest

from tf_malleable.scheduling.decision.wake_demand import Queueing


def looked(*looks: tuple[dict[int, tuple[float, bool]], float]) -> float:
    queueing = Queueing()
    for threads, now in looks:
        queueing.look(threads, now)
    return queueing.cpus


def test_one_look_says_nothing_yet():
    assert looked(({7: (5.0, True)}, 1.0)) == 0.0


def test_a_thread_that_waited_nearly_all_the_time_wants_nearly_a_cpu():
    assert looked(({7: (5.0, False)}, 1.0), ({7: (5.18, False)}, 1.2)) == pytest.approx(0.9)


def test_threads_that_sleep_want_nothing():
    assert looked(({7: (5.0, False), 8: (1.0, False)}, 1.0), ({7: (5.0, False)}, 1.1)) == 0.0


def test_a_thread_that_never_gets_a_cpu_counts_although_its_wait_has_not_ended():
    assert looked(({7: (5.0, True)}, 1.0), ({7: (5.0, True)}, 1.1)) == 1.0


def test_one_that_happens_to_run_just_now_does_not():
    assert looked(({7: (5.0, False)}, 1.0), ({7: (5.0, True)}, 1.1)) == 0.0


def test_new_threads_count_from_their_creation_but_not_for_longer_than_the_look():
    looks = ({}, 1.0), ({7: (0.1, False), 8: (9.0, False)}, 1.2)
    assert looked(*looks) == pytest.approx(1.5)


def test_a_thread_that_ended_does_not_count_against_others():
    looks = ({7: (9.0, False), 8: (0.0, False)}, 1.0), ({8: (0.1, False)}, 1.2)
    assert looked(*looks) == pytest.approx(0.5)


def test_forgotten_it_begins_again():
    queueing = Queueing()
    queueing.look({7: (0.0, True)}, 1.0)
    queueing.look({7: (0.0, True)}, 1.1)
    queueing.forget()
    assert (queueing.cpus, queueing.looked_at) == (0.0, None)
    queueing.look({7: (5.0, True)}, 2.0)
    assert queueing.cpus == 0.0
