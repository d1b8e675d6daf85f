# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Values that are derived from a job once."""

from __future__ import annotations

import pickle
from dataclasses import replace

from tf_malleable.model import Job, Shape


def test_a_value_is_computed_once_for_a_job_and_anew_for_a_changed_one():
    job, asked = Job("1", Shape(1, 2, 4), 0.0), []

    def length(of, factor):
        asked.append((of.run_seconds, factor))
        return of.run_seconds * factor

    longer = replace(job, run_seconds=5.0)
    assert [each.derived(length, 2.0) for each in (job, job, longer, longer)] == [0, 0, 10, 10]
    assert asked == [(0.0, 2.0), (5.0, 2.0)]


def test_it_is_computed_anew_for_another_argument_and_function():
    job, one, two = Job("1", Shape(1, 2, 4), 0.0), ("a",), ("b",)
    assert [job.derived(lambda _, said: said, each) for each in (one, two)] == [one, two]

    def same(_, said):
        return said

    assert [job.derived(same, each) for each in (one, two, one)] == [one, two, one]


def test_a_job_with_values_is_equal_to_one_without():
    job, other = Job("1", Shape(1, 2, 4), 0.0), Job("1", Shape(1, 2, 4), 0.0)
    job.derived(Job.__eq__, other)
    assert job == other
    assert hash(job) == hash(other)
    assert pickle.loads(pickle.dumps(job)) == other
