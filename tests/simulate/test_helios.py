# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Traces of SenseTime's Helios clusters."""

from __future__ import annotations

import pytest

from tests.support.complaints import complaint
from tf_malleable.model import Shape
from tf_malleable.simulate.engine.workload import Assumed
from tf_malleable.simulate.traces import read_trace

HEADER = (
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
)
ALLOWED = (
    "the columns must be job_id, user, gpu_num, cpu_num, node_num, state, submit_time,"
    " start_time, end_time, duration, queue, and may be vc"
)


def job(cpus=4, state="COMPLETED", submit="2020-06-09 18:41:01", duration=249, number=7):
    return f"{number},uX,vcY,1,{cpus},1,{state},{submit},{submit},{submit},{duration},0"


@pytest.fixture
def read(tmp_path):
    def reading(*lines, header=HEADER):
        file = tmp_path / "cluster_log.csv"
        file.write_text("\r\n".join([header, *lines]))
        return read_trace(file, Assumed())

    return reading


def test_a_job_has_the_cpus_it_requested(read):
    (task,) = read(job(cpus=16)).tasks
    assert (task.at, task.seconds, task.shape) == (0, 249 * 16, Shape(1, 16, 16))
    assert (task.name, task.user) == ("job 7", "uX")


def test_the_virtual_cluster_may_be_missing(read):
    columns = HEADER.replace(",vc,", ",")
    workload = read(job().replace(",vcY,", ","), header=columns)
    assert len(workload.tasks) == 1


def test_jobs_are_sorted_by_their_submission(read):
    late, early = job(submit="2020-06-10 00:00:01"), job(submit="2020-06-09 23:59:01", number=8)
    workload = read(late, early)
    assert [(task.name, task.at) for task in workload.tasks] == [("job 8", 0), ("job 7", 60)]


def test_all_but_completed_jobs_fail(read):
    states = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL")
    tasks = read(*(job(state=state) for state in states)).tasks
    assert [task.fails_at for task in tasks] == [None, 1, 1, 1, 1]


def test_jobs_that_never_ran_are_counted(read):
    states = ("CANCELLED", "FAILED", "TIMEOUT", "COMPLETED", "SUSPENDED")
    workload = read(job(), *(job(state=state, duration=0) for state in states))
    assert workload.left_out == {
        "cancelled before they started": 1,
        "failed before they started": 2,
        "shorter than a second": 1,
        "suspended when the trace ends": 1,
    }


def test_what_is_assumed_is_said(read):
    said = read(job()).assumed
    assert "every job's speed-up curve is linear" in said
    assert "GPUs are not simulated, only the CPUs that jobs requested" in said
    assert "every job is a program of its own" in said


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (HEADER.replace("duration,", ""), f"column duration is missing; {ALLOWED}"),
        (HEADER.replace("queue", "wait"), f"column 'wait' is unknown; {ALLOWED}"),
        (HEADER.replace("vc", "user"), f"column user is there twice; {ALLOWED}"),
    ],
)
def test_a_bad_header_is_an_error(read, tmp_path, header, message):
    heard = complaint(lambda: read(job(), header=header))
    assert heard == f"{tmp_path / 'cluster_log.csv'}, line 1: {message}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "7,uX",
            f"a line must have 12 fields ({HEADER.replace(',', ', ')}), not 2",
        ),
        (
            job(state="LOST"),
            "state must be COMPLETED, CANCELLED, FAILED, TIMEOUT, NODE_FAIL or SUSPENDED, not"
            " 'LOST'",
        ),
        (job(duration="long"), "duration must be a number, not 'long'"),
        (job(duration=-1), "duration must be at least 0 seconds, not -1"),
        (job(cpus=0), "cpu_num must be an integer of at least 1, not '0'"),
        (job(cpus="1.5"), "cpu_num must be an integer of at least 1, not '1.5'"),
        (
            job(submit="9 June"),
            "submit_time must be a time such as 2020-06-09 18:41:01, not '9 June'",
        ),
        (
            job(submit="2020-13-09 18:41:01"),
            "submit_time must be a time such as 2020-06-09 18:41:01, not '2020-13-09 18:41:01'",
        ),
        ('7,"uX', "a line must have comma-separated values: unexpected end of data"),
    ],
)
def test_a_bad_line_is_named(read, tmp_path, line, message):
    heard = complaint(lambda: read(job(), "", line))
    assert heard == f"{tmp_path / 'cluster_log.csv'}, line 4: {message}"


def test_there_are_no_estimates_to_trust(tmp_path):
    file = tmp_path / "cluster_log.csv"
    file.write_text(f"{HEADER}\n{job()}\n")
    heard = complaint(lambda: read_trace(file, Assumed(), trust_estimates=True))
    assert heard == f"{file} has no users' estimates to trust: only swf traces have them"


def test_a_trace_without_jobs_is_an_error(read):
    with pytest.raises(ValueError, match=r"cluster_log.csv has no jobs$"):
        read()
