# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Metrics of jobs that the controller's history does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tf_malleable.api.schema.history import History, JobRecord
from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.scheduling.records import metrics
from tf_malleable.workload.metrics import Finished, from_history, from_outside
from tf_malleable.workload.plan import PlannedJob


class ForgetfulController:
    """Has heard of no job."""

    def get(self, path: str, answer: type[object]) -> History:
        return History([], [], metrics.summary([], 2))


def finished(exit_code: int) -> Finished:
    job = PlannedJob(0.0, JobRequest("job", ("train",)), queue=False)
    return Finished(job, None, "me", 10.0, 14.0, exit_code, 0.25, Path("job.log"))


def with_controller(exit_code: int) -> JobRecord:
    controller = ForgetfulController()
    (record,) = from_history([finished(exit_code)], controller, [0, 1]).jobs  # type: ignore[arg-type]
    return record


def times(record: JobRecord) -> tuple[float | None, ...]:
    return (record.started, record.waiting_seconds, record.service_seconds, record.core_seconds)


@pytest.mark.parametrize("exit_code", [1, 2, 126, 127])
def test_what_tfm_run_did_not_start_never_had_a_core(exit_code):
    record = with_controller(exit_code)
    assert times(record) == (None, 4.0, 0.0, 0.0)
    assert (record.outcome, record.total_seconds) == ("failed", 4.0)


@pytest.mark.parametrize("exit_code", [0, 3, 137])
def test_what_ran_while_the_controller_was_gone_had_all_cores(exit_code):
    assert times(with_controller(exit_code)) == (10.0, 0.0, 4.0, 8.0)


@pytest.mark.parametrize("exit_code", [0, 1, 127])
def test_without_a_controller_everything_starts(exit_code):
    (record,) = from_outside([finished(exit_code)], [0, 1]).jobs
    assert times(record) == (10.0, 0.0, 4.0, 8.0)
