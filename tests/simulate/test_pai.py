# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Alibaba's PAI trace."""

from __future__ import annotations

import pytest

from tests.support.complaints import complaint
from tf_malleable.model import Shape
from tf_malleable.simulate.engine.workload import Assumed
from tf_malleable.simulate.traces import read_trace

HEADER = (
    "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type"
)


def job(instances="1.0", status="Terminated", start="100.0", end="160.0", cpu="600.0", name="ab"):
    return f"{name},worker,{instances},{status},{start},{end},{cpu},29.3,50.0,MISC"


@pytest.fixture
def read(tmp_path):
    def reading(*lines, kind=None):
        file = tmp_path / "pai_task_table.csv"
        file.write_text("\n".join(lines))
        return read_trace(file, Assumed(), kind)

    return reading


def test_a_task_has_the_cpus_of_all_its_instances(read):
    one, many = read(job(), job(instances="3.0", cpu="150.0")).tasks
    assert (one.shape, one.seconds, one.at) == (Shape(1, 6, 6), 60 * 6, 0)
    assert many.shape == Shape(1, 5, 5)
    assert (one.name, one.user) == ("ab worker", "unknown")


def test_a_header_is_allowed(read):
    assert len(read(HEADER, job()).tasks) == 1
    assert len(read(job(), job()).tasks) == 2


def test_tasks_are_sorted_by_their_launch(read):
    tasks = read(job(start="130.0"), job(start="120.5", name="cd")).tasks
    assert [(task.name, task.at) for task in tasks] == [("cd worker", 0), ("ab worker", 9.5)]


def test_failed_tasks_fail(read):
    assert [task.fails_at for task in read(job(), job(status="Failed")).tasks] == [None, 1]


def test_tasks_that_cannot_be_simulated_are_counted(read):
    workload = read(
        job(),
        job(status="Running", end=""),
        job(status="Waiting", start="", end=""),
        job(cpu=""),
        job(start=""),
        job(end=""),
        job(instances=""),
        job(end="100.0"),
    )
    assert workload.left_out == {
        "still running when the trace ends": 1,
        "still waiting when the trace ends": 1,
        "without plan_cpu": 1,
        "without start_time": 1,
        "without end_time": 1,
        "without inst_num": 1,
        "shorter than a second": 1,
    }


def test_what_is_assumed_is_said(read):
    said = read(job()).assumed
    assert "tasks arrive when they were launched, as the table has no submit times" in said
    assert "all jobs belong to one user" in said


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ab,worker", f"a line must have 10 fields ({HEADER.replace(',', ', ')}), not 2"),
        (
            job(status="Lost"),
            "status must be Terminated, Failed, Running, Waiting, not 'Lost'",
        ),
        (
            job(end="99.0"),
            "start_time must be at least 0, and end_time not before it, not 100.0 and 99.0",
        ),
        (
            job(start="-1"),
            "start_time must be at least 0, and end_time not before it, not -1 and 160.0",
        ),
        (job(start="x"), "start_time must be a number, not 'x'"),
        (job(cpu="0"), "plan_cpu must be above 0 percent, not 0"),
        (job(cpu="all"), "plan_cpu must be a number, not 'all'"),
        (job(instances="0"), "inst_num must be an integer of at least 1, not '0'"),
    ],
)
def test_a_bad_line_is_named(read, tmp_path, line, message):
    heard = complaint(lambda: read(job(), line))
    assert heard == f"{tmp_path / 'pai_task_table.csv'}, line 2: {message}"


def test_a_bad_header_is_an_error(read):
    allowed = f"the columns must be {HEADER.replace(',', ', ')}"
    with pytest.raises(ValueError, match=f"line 1: column status is missing; {allowed}"):
        read(HEADER.replace("status,", ""), job())
    with pytest.raises(ValueError, match=f"line 1: column 'state' is unknown; {allowed}"):
        read(HEADER.replace("status", "state"), job())


def test_a_trace_without_jobs_is_an_error(read):
    with pytest.raises(ValueError, match=r"pai_task_table.csv has no jobs$"):
        read(HEADER)
    with pytest.raises(ValueError, match=r"pai_task_table.csv has no jobs$"):
        read(kind="pai")
