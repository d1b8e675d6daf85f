# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Traces in the Standard Workload Format."""

from __future__ import annotations

import pytest

from tests.support.complaints import complaint
from tf_malleable.model import Shape
from tf_malleable.simulate.engine.curves import amdahl
from tf_malleable.simulate.engine.workload import Assumed
from tf_malleable.simulate.traces import read_trace

HEADER = "; Version: 2.2\n; Computer: Ünïcöde\n"


def job(submit=0, run=10, allocated=4, requested=-1, limit=-1, status=1, user=3, app=-1, queue=-1):
    fields = [1, submit, 5, run, allocated, -1, -1, requested, limit, -1, status]
    return " ".join(map(str, [*fields, user, 1, app, queue, -1, -1, -1]))


@pytest.fixture
def read(tmp_path):
    def reading(*lines, assumed=Assumed(), **options):  # noqa: B008 - frozen
        file = tmp_path / "log.swf"
        file.write_bytes(HEADER.encode("latin-1") + "\n".join(lines).encode())
        return read_trace(file, assumed, **options)

    return reading


def test_a_job_takes_as_long_again_with_the_same_cores(read):
    (task,) = read(job(run=70, allocated=4), assumed=Assumed(amdahl(0.2), "amdahl:0.2")).tasks
    assert task.seconds / task.curve.speedup(4) == pytest.approx(70)
    assert (task.shape, task.fails_at, task.expected) == (Shape(1, 4, 4), None, None)


def test_starting_is_part_of_the_run_time_unless_that_is_shorter(read):
    assumed = Assumed(starting=8.0, steps=None, malleable=False)
    long, short = read(job(run=20), job(run=8), assumed=assumed).tasks
    assert (long.starting, long.seconds) == (8, 12 * 4)
    assert (short.starting, short.seconds) == (0, 8 * 4)
    assert long.steps is None
    assert long.shape == Shape(4, 4, 4)


def test_arrivals_begin_at_zero(read):
    workload = read(job(submit=1000), "", job(submit=1000.5), job(submit=1060))
    assert [task.at for task in workload.tasks] == [0, 0.5, 60]
    assert workload.name == "log"


def test_requested_processors_go_before_allocated_ones(read):
    wanted, had = read(job(requested=2, allocated=8), job(requested=-1, allocated=8)).tasks
    assert (wanted.shape.max, had.shape.max) == (2, 8)


def test_names_are_by_application_or_else_by_queue(read):
    tasks = read(job(app=7, queue=1), job(queue=0), job()).tasks
    assert [task.name for task in tasks] == ["app7", "queue0", "job"]


def test_users_are_kept_apart_and_unknown_ones_are_said_to_be_one(read):
    workload = read(job(user=12), job(user=-1))
    assert [task.user for task in workload.tasks] == ["user12", "unknown"]
    assert "jobs of unknown users belong to one user" in workload.assumed
    assert not [said for said in read(job()).assumed if "unknown users" in said]


def test_failed_and_cancelled_jobs_fail_at_the_end_of_what_they_did(read):
    workload = read(job(status=0), job(status=5), job(status=-1))
    assert [task.fails_at for task in workload.tasks] == [1.0, 1.0, None]


def test_jobs_that_never_ran_and_parts_of_jobs_are_counted(read):
    lines = [job(status=status, run=run) for status, run in ((5, 0), (5, -1), (0, 0))]
    lines += [job(status=status) for status in (2, 2, 3, 4, 1)]
    assert read(*lines).left_out == {
        "cancelled before they started": 2,
        "failed before they started": 1,
        "partial executions that were continued": 2,
        "last partial executions of jobs that completed": 1,
        "last partial executions of jobs that failed": 1,
    }


def test_estimates_are_expected_only_if_they_are_trusted(read):
    lines = [job(limit=3600), job()]
    assert [task.expected for task in read(*lines).tasks] == [None, None]
    trusting = read(*lines, trust_estimates=True)
    assert [task.expected for task in trusting.tasks] == [3600, None]
    assert "users expect a job to run for as long as they requested" in trusting.assumed


def test_what_is_assumed_is_said(read):
    said = read(job(), assumed=Assumed(amdahl(0.1), "amdahl:0.1", starting=5.0)).assumed
    assert said == (
        "every job's speed-up curve is amdahl:0.1",
        "a job that had n cores can use 1 … n",
        "starting takes 5 s on one core of the run time, unless that is shorter",
        "no job waits for input",
        "every job reports 100 steps, all with the same work",
    )
    said = read(job(status=0), assumed=Assumed(malleable=False, steps=None)).assumed
    assert said == (
        "every job's speed-up curve is linear",
        "starting takes no time",
        "no job waits for input",
        "no job reports steps",
        "a job that failed or was cancelled ends after the work that it then had",
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 0 5", "a job must have 18 fields, not 3"),
        (job(submit="soon"), "the submit time (field 2) must be a number, not 'soon'"),
        (job(submit="nan"), "the submit time (field 2) must be a number, not 'nan'"),
        (job(submit=-2), "the submit time (field 2) must be at least 0 seconds, not -2"),
        (
            job(submit=4),
            "submit times (field 2) must not decrease from line to line, but 4 comes after 5",
        ),
        (
            job(submit=5, run=0),
            "the run time (field 4) must be above 0 seconds, not 0; only of a job that failed or"
            " was cancelled may it be 0 or -1",
        ),
        (
            job(submit=5, run=-7, status=5),
            "the run time (field 4) must be above 0 seconds, not -7; only of a job that failed or"
            " was cancelled may it be 0 or -1",
        ),
        (
            job(submit=5, requested=0),
            "the requested processors (field 8) must be at least 1, or -1 if unknown, not 0",
        ),
        (
            job(submit=5, allocated=0),
            "the allocated processors (field 5) must be at least 1 if field 8 is -1, not 0",
        ),
        (
            job(submit=5, requested=1.5),
            "the requested processors (field 8) must be an integer of at least 0, or -1 if"
            " unknown, not 1.5",
        ),
        (
            job(submit=5, status=7),
            "the status (field 11) must be 0 (failed), 1 (completed), 2, 3 or 4 (partial"
            " execution), 5 (cancelled) or -1, not 7",
        ),
        (job(submit=5, user="eva"), "the user id (field 12) must be a number, not 'eva'"),
        (job(submit=5, limit="1h"), "the requested time (field 9) must be a number, not '1h'"),
        (job(submit=5, app="x"), "the executable number (field 14) must be a number, not 'x'"),
        (job(submit=5, queue="x"), "the queue number (field 15) must be a number, not 'x'"),
    ],
)
def test_a_bad_line_is_named(read, tmp_path, line, message):
    heard = complaint(lambda: read(job(submit=5), line))
    assert heard == f"{tmp_path / 'log.swf'}, line 4: {message}"


def test_a_trace_without_jobs_is_an_error(read, tmp_path):
    file = tmp_path / "log.swf"
    with pytest.raises(ValueError, match=r"log.swf has no jobs$"):
        read()
    heard = complaint(lambda: read(job(status=5, run=0), job(status=2)))
    assert heard == (
        f"{file} has no jobs that can be simulated, only 1 cancelled before they started, 1"
        " partial executions that were continued"
    )


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"cannot read .*none.swf: No such file or directory"):
        read_trace(tmp_path / "none.swf", Assumed())
    binary = tmp_path / "binary.swf"
    binary.write_bytes(b"\x1f\x8b\x08\xff\xfe")
    with pytest.raises(ValueError, match=r"binary.swf is not a text file"):
        read_trace(binary, Assumed())


def test_the_format_is_told_by_the_content_too(tmp_path):
    for name, text in (("a", HEADER + job()), ("b", "\n" + job())):
        file = tmp_path / name
        file.write_text(text)
        assert len(read_trace(file, Assumed()).tasks) == 1


def test_an_unknown_format_is_an_error(tmp_path):
    file = tmp_path / "jobs.txt"
    file.write_text("0 -- true\n")
    heard = complaint(lambda: read_trace(file, Assumed()))
    assert heard == (f"cannot tell the format of {file}: say that it is swf, philly, helios or pai")
    heard = complaint(lambda: read_trace(file, Assumed(), "csv"))
    assert heard == "a trace's format must be swf, philly, helios or pai, not 'csv'"
    with pytest.raises(ValueError, match=r"cannot read .*none"):
        read_trace(tmp_path / "none", Assumed())
