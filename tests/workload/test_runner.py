# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Planned jobs, run without a controller."""

import sys

import pytest

from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.workload.plan import PlannedJob
from tf_malleable.workload.runner import run_workload


@pytest.mark.slow
def test_alone_all_run_side_by_side_and_are_measured_the_same_way(tmp_path):
    plan = [
        PlannedJob(0.0, JobRequest("sleepy", ("sleep", "1"))),
        PlannedJob(0.2, JobRequest("sleepy", ("sleep", "0.5"))),
        PlannedJob(
            0.0,
            JobRequest(
                "busy",
                (sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"),
            ),
        ),
        PlannedJob(0.0, JobRequest("gone", ("no-such-program-here",))),
    ]
    events = []
    found = run_workload(plan, out=tmp_path / "logs", controller=None, watch=events.append)
    assert [(job.name, job.exit_code) for job in found.jobs] == [
        ("sleepy", 0),
        ("busy", 0),
        ("gone", 127),
        ("sleepy", 0),
    ]
    long, busy, _, short = found.jobs
    assert 0.1 <= short.submitted - long.submitted < 0.9
    assert all(job.waiting_seconds == 0 for job in found.jobs)
    assert busy.cpu_seconds >= 0.3 > long.cpu_seconds
    assert (found.summary.jobs, found.summary.failures) == (4, 1)
    assert found.summary.makespan >= 1.0
    assert [event.kind for event in events if event.kind != "tick"].count("arrived") == 4
    assert "no-such-program-here" in (tmp_path / "logs/gone.log").read_text()
