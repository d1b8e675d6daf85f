# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Jobs that queue, and jobs that compute already when they join."""

from __future__ import annotations

import pytest

from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.controller.jobs.job_measurements import JobMeasurements
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.controller.scheduler.admission import Admission
from tf_malleable.controller.state.store import Store
from tf_malleable.model import NO_GRANT, Grant, Machine, ProcessId, Shape
from tf_malleable.scheduling.records import time_accounts
from tf_malleable.scheduling.records.lessons import Lessons

PROCESS = ProcessId(4711, 99, "boot")
REQUEST = JobRequest("train.py", ("python", "train.py"), max=3)


@pytest.fixture
def admission(tmp_path):
    store = Store(tmp_path / "state" / "controller.db")
    yield Admission(lambda: Machine.flat(4), store)
    store.close()


def test_a_job_that_queues_waits(admission):
    record = admission.record(REQUEST, 1000, 5.0, PROCESS, running=False)
    assert (record.state, record.started, record.shape) == ("waiting", None, Shape(1, 3, 3))
    assert (record.name, record.command) == ("train.py", ("python", "train.py"))
    assert (record.process, record.uid) == (PROCESS, 1000)


def test_a_job_that_computes_already_is_stored_as_running(admission):
    record = admission.record(REQUEST, 1000, 5.0, PROCESS, running=True)
    assert (record.state, record.started, record.grant) == ("running", 5.0, NO_GRANT)
    # Of its seconds none is waiting or paused, whatever is decided and when.
    later = time_accounts.up_to(record, 7.0)
    assert (later.waiting_seconds, later.paused_seconds, later.run_seconds) == (0.0, 0.0, 2.0)


def test_a_job_that_somebody_else_starts_has_waited_until_then(admission):
    waiting = admission.record(REQUEST, 1000, 0.0, None, running=False)
    joined = time_accounts.joined(waiting, 100.0)
    assert (joined.state, joined.started, joined.entered) == ("running", 100.0, 100.0)
    later = time_accounts.up_to(joined, 110.0)
    assert (later.waiting_seconds, later.run_seconds) == (100.0, 10.0)


def test_its_first_grant_is_no_resize(admission):
    joined = admission.record(REQUEST, 1000, 5.0, PROCESS, running=True)
    granted = time_accounts.granted(joined, Grant(frozenset({0, 1})), 5.0)
    assert (granted.state, granted.resizes) == ("running", 0)
    assert time_accounts.granted(granted, Grant(frozenset({0})), 6.0).resizes == 1


def test_without_a_grant_it_is_paused(admission):
    joined = admission.record(REQUEST, 1000, 5.0, PROCESS, running=True)
    assert time_accounts.granted(joined, NO_GRANT, 5.0).state == "paused"


def test_to_a_policy_it_has_had_cores_and_has_none(admission):
    live = LiveJob(
        admission.record(REQUEST, 1000, 5.0, PROCESS, running=True), JobMeasurements(Lessons())
    )
    job = live.as_job(6.0)
    assert (job.state, job.started, job.grant) == ("paused", 5.0, NO_GRANT)


def test_more_cores_than_there_are_are_refused(admission):
    with pytest.raises(Refusal) as caught:
        admission.check(JobRequest("greedy", min=5))
    assert caught.value.status == 400
    assert "min must be at most 4" in caught.value.sentence
