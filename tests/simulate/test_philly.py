# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The trace of Microsoft's Philly clusters."""

from __future__ import annotations

import json

import pytest

from tests.support.complaints import complaint
from tf_malleable.model import Shape
from tf_malleable.simulate.engine.curves import amdahl
from tf_malleable.simulate.engine.workload import Assumed
from tf_malleable.simulate.traces import json_list, read_trace

DAY = "2017-10-07"


def attempt(start="01:00:00", end="01:01:00", gpus=(4,)):
    return {
        "start_time": start and f"{DAY} {start}",
        "end_time": end and f"{DAY} {end}",
        "detail": [
            {"ip": f"m{machine}", "gpus": [f"gpu{n}" for n in range(count)]}
            for machine, count in enumerate(gpus)
        ],
    }


def job(*attempts, **said):
    known = {
        "status": "Pass",
        "vc": "ee9e8c",
        "jobid": "application_1",
        "attempts": [*attempts],
        "submitted_time": f"{DAY} 00:59:00",
        "user": "ce2f4c",
    }
    return {**known, **said}


@pytest.fixture
def read(tmp_path):
    def reading(jobs, assumed=Assumed()):  # noqa: B008 - frozen
        file = tmp_path / "cluster_job_log"
        file.write_text(jobs if isinstance(jobs, str) else json.dumps(jobs, indent=1))
        return read_trace(file, assumed)

    return reading


def test_a_gpu_is_a_core(read):
    workload = read([job(attempt(gpus=(8, 4)))])
    (task,) = workload.tasks
    assert (task.at, task.seconds, task.shape) == (0, 60 * 12, Shape(1, 12, 12))
    assert (task.name, task.user) == ("job application_1", "ce2f4c")
    assert "a GPU is read as a core" in workload.assumed


def test_attempts_add_up(read):
    curve = amdahl(0.1)
    jobs = [job(attempt(), attempt("02:00:00", "02:00:30"))]
    (task,) = read(jobs, Assumed(curve)).tasks
    assert task.seconds / curve.speedup(4) == pytest.approx(90)
    jobs = [job(attempt(gpus=(2,)), attempt("02:00:00", "02:00:30"))]
    (task,) = read(jobs, Assumed(curve)).tasks
    assert task.shape.max == 4
    assert task.seconds == pytest.approx(60 * curve.speedup(2) + 30 * curve.speedup(4))


def test_jobs_are_sorted_by_their_submission(read):
    jobs = [job(attempt()), job(attempt(), submitted_time=f"{DAY} 00:58:30", jobid="b")]
    tasks = read(jobs).tasks
    assert [(task.name, task.at) for task in tasks] == [("job b", 0), ("job application_1", 30)]


def test_killed_and_failed_jobs_fail(read):
    jobs = [job(attempt(), status=status) for status in ("Pass", "Killed", "Failed")]
    assert [task.fails_at for task in read(jobs).tasks] == [None, 1, 1]


def test_jobs_that_cannot_be_simulated_are_counted(read):
    workload = read(
        [
            job(attempt(), user=None),
            job(),
            job(attempt(), attempt("02:00:00", None)),
            job(attempt("", "02:00:00")),
            job(attempt(), submitted_time="None"),
            job(attempt(gpus=())),
            job(attempt(end="01:00:00")),
            job(attempt(end="00:30:00")),
        ]
    )
    assert workload.left_out == {
        "without attempts": 1,
        "with an attempt without end": 1,
        "with an attempt without start": 1,
        "without a submission time": 1,
        "without GPUs": 1,
        "shorter than a second": 1,
        "with an attempt that ended before it started": 1,
    }
    assert [task.user for task in workload.tasks] == ["unknown"]


def test_a_long_trace_is_read_part_by_part(read, monkeypatch):
    monkeypatch.setattr(json_list, "_CHUNK", 7)
    tasks = read([job(attempt(), jobid=f"ä{number}") for number in range(50)]).tasks
    assert [task.name for task in tasks] == [f"job ä{number}" for number in range(50)]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"status": "Lost"}, "status must be Pass, Killed, Failed, not 'Lost'"),
        ({"status": 1}, "status must be a string, not 1"),
        ({"user": 5}, "user must be a string, not 5"),
        ({"attempts": {}}, "attempts must be a list, not {}"),
        ({"attempts": [1]}, "attempts must be a list of JSON objects, not of 1"),
        ({"attempts": [{}]}, "start_time is missing"),
        ({"attempts": [{**attempt(), "detail": 2}]}, "detail must be a list, not 2"),
        ({"attempts": [{**attempt(), "detail": [{"ip": ""}]}]}, "gpus is missing"),
        (
            {"attempts": [attempt(end="1 am")]},
            f"end_time must be a time such as 2020-06-09 18:41:01, not '{DAY} 1 am'",
        ),
        (
            {"submitted_time": 12},
            "submitted_time must be a time such as 2020-06-09 18:41:01, not 12",
        ),
    ],
)
def test_a_bad_job_is_named(read, tmp_path, said, message):
    heard = complaint(lambda: read([job(attempt()), {**job(attempt()), "jobid": "bad", **said}]))
    assert heard == f"{tmp_path / 'cluster_job_log'}, job bad: {message}"


def test_a_missing_key_is_named(read):
    whole = job(attempt())
    for key in ("status", "attempts", "submitted_time", "user"):
        broken = {name: value for name, value in whole.items() if name != key}
        with pytest.raises(ValueError, match=f"job application_1: {key} is missing"):
            read([broken])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[\n{"jobid": "a",\n oops}]', "line 3: malformed JSON: expecting property name"),
        ('[\n{"jobid": "a"', "line 2: malformed JSON: expecting ',' delimiter"),
        ("[\n1]", "line 2: a job must be a JSON object, not 1"),
        ("[\n{}]", "line 2: jobid is missing"),
        ("[" + "[" * 100_000, "line 1: a job must not be nested so deeply"),
        ("[" + "9" * 5000 + "]", "line 1: "),
    ],
)
def test_malformed_json_is_named_by_its_line(read, text, message):
    heard = complaint(lambda: read(text))
    assert f"cluster_job_log, {message}" in heard


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("", "jobs must be separated by commas, and the list end with ], but the file ends"),
        ("{}]", "jobs must be separated by commas, and the list end with ], not '{'"),
        ("]\n[", "nothing may come after the list of jobs"),
    ],
)
def test_a_list_must_end_as_one(read, rest, message):
    heard = complaint(lambda: read(f"[{json.dumps(job(attempt()))}{rest}"))
    assert message in heard


def test_what_is_no_list_is_an_error(tmp_path):
    file = tmp_path / "log.json"
    file.write_text("{}")
    heard = complaint(lambda: read_trace(file, Assumed()))
    assert heard == f"{file}, line 1: a trace must be a JSON list of jobs, not '{{'"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"log.json is not a text file"):
        read_trace(file, Assumed())
    with pytest.raises(ValueError, match=r"cannot read .*none.json: No such file"):
        read_trace(tmp_path / "none.json", Assumed())


def test_a_trace_without_jobs_is_an_error(read):
    with pytest.raises(ValueError, match=r"cluster_job_log has no jobs$"):
        read("[ ]")
    with pytest.raises(ValueError, match=r"has no jobs that can be simulated, only 1 without att"):
        read([job()])
