# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Values that are derived from a job once."""

from __future__ import annotations

import pickle
from dataclasses import replace

from tf_malleable.model import Job, Shape


def test_a_value_is_computed_once_for_a_job_and_anew_for_a_changed_one():
    job, asked = Job("1", Shape(1, 2, 4), 0.0), []

    def length(of):
        return of.derived("length", lambda: asked.append(of.run_seconds) or of.run_seconds)

    assert [length(job), length(job), length(replace(job, run_seconds=5.0))] == [0.0, 0.0, 5.0]
    assert asked == [0.0, 5.0]


def test_values_are_kept_by_key():
    job = Job("1", Shape(1, 2, 4), 0.0)
    assert [job.derived(key, lambda key=key: key) for key in (1, 2, 1)] == [1, 2, 1]


def test_a_job_with_values_is_equal_to_one_without():
    job, other = Job("1", Shape(1, 2, 4), 0.0), Job("1", Shape(1, 2, 4), 0.0)
    job.derived("one", lambda: 1)
    assert (job == other, hash(job) == hash(other), pickle.loads(pickle.dumps(job)) == other) == (
        True,
        True,
        True,
    )
