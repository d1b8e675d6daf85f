# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Workload files to simulate."""

from __future__ import annotations

import math

import pytest

from tests.support.complaints import complaint
from tf_malleable.api.schema.job_request import MOST_CORES
from tf_malleable.model import Shape
from tf_malleable.simulate.engine.curves import LINEAR, amdahl, measured, usl
from tf_malleable.simulate.engine.task import Task
from tf_malleable.simulate.engine.workload import Assumed
from tf_malleable.simulate.workloads.plan import read_plan


@pytest.fixture
def read(tmp_path):
    def reading(text, assumed=Assumed()):  # noqa: B008 - frozen
        file = tmp_path / "mix.txt"
        file.write_text(text)
        return read_plan(file, assumed)

    return reading


def test_a_line_says_all_of_a_job(read):
    workload = read(
        "# second  what\n"
        "0    --work 90 python3 train.py --epochs 3   # the first\n"
        "\n"
        "2.5  --name big --min 2 --preferred 3 --max 4 --priority -5 --weight 2 --no-queue"
        " --work 600 --curve amdahl:0.1 --starting 5 --ending 2 --busy 20 --idle 4"
        " --fails-at 0.5 --steps 30 --user eva --expected 2m -- ./big 'a b' -x\n"
    )
    first, big = workload.tasks
    command = ("python3", "train.py", "--epochs", "3")
    assert first == Task("train.py", 0, 90, LINEAR, Shape(1, MOST_CORES, MOST_CORES), command)
    assert big == Task(
        name="big",
        at=2.5,
        seconds=600,
        curve=amdahl(0.1),
        shape=Shape(2, 3, 4),
        command=("./big", "a b", "-x"),
        user="eva",
        priority=-5,
        weight=2,
        expected=120,
        queue=False,
        steps=30,
        starting=5,
        ending=2,
        busy=20,
        idle=4,
        fails_at=0.5,
    )
    assert workload.name == "mix"


def test_curves_are_written_as_everywhere(read):
    texts = ("linear", "usl:0.1,0.01", "1=1,2=1.9")
    tasks = read("".join(f"0 --work 1 --curve {text} ./a\n" for text in texts)).tasks
    assert [task.curve for task in tasks] == [LINEAR, usl(0.1, 0.01), measured({1: 1, 2: 1.9})]


def test_what_lines_do_not_say_is_assumed_and_said(read):
    assumed = Assumed(amdahl(0.2), "amdahl:0.2", starting=3.0, steps=50)
    workload = read("0 --work 1 ./a\n1 --work 1 --no-steps --mem 1G ./a\n", assumed)
    for task in workload.tasks:
        assert (task.curve, task.starting, task.busy) == (amdahl(0.2), 3.0, math.inf)
    assert [task.steps for task in workload.tasks] == [50, None]
    assert workload.assumed == (
        "where a line does not say it, every job's speed-up curve is amdahl:0.2",
        "where a line does not say it, starting takes 3 s on one core",
        "where a line does not say it, every job reports 50 steps, all with the same work",
        "memory and GPUs that jobs ask for are always free",
    )
    said = "0 --work 1 --curve linear --starting 0 --steps 5 ./a\n"
    assert read(said, assumed).assumed == ()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("5 ./a", "Missing option '--work'."),
        ("5 --work long ./a", "Invalid value for '--work': 'long' is not a valid float."),
        ("5 --work 0 ./a", "the work must be a finite number of seconds, above 0, not 0"),
        (
            "nan --work 1 ./a",
            "the arrival must be a finite number of seconds, at least 0, not nan",
        ),
        ("5 --work 1", "Missing argument 'COMMAND...'."),
        ("soon ./a", "a line must begin with the job's arrival time in seconds, not 'soon'"),
        ("5 --work 1 'a", "No closing quotation"),
        ("4 --work 1 ./a", "jobs must be in order of arrival, but 4 comes after 5 seconds"),
        (
            "5 --work 1 --curve amdahl:2 ./a",
            "Invalid value for '--curve': a serial part must be 0 … 1, not 2",
        ),
        (
            "5 --work 1 --expected 5 ./a",
            "Invalid value for '--expected': must be a duration such as 12h or 90d, not '5'",
        ),
        (
            "5 --work 1 --starting -1 ./a",
            "the time for starting must be a finite number of seconds, at least 0, not -1",
        ),
        (
            "5 --work 1 --ending inf ./a",
            "the time for ending must be a finite number of seconds, at least 0, not inf",
        ),
        (
            "5 --work 1 --idle 3 ./a",
            "--busy and --idle must be given together, and above 0: seconds of work between two"
            " waits for input, and seconds of each",
        ),
        (
            "5 --work 1 --busy 3 ./a",
            "--busy and --idle must be given together, and above 0: seconds of work between two"
            " waits for input, and seconds of each",
        ),
        (
            "5 --work 1 --busy -3 --idle 1 ./a",
            "the work between waits must be above 0 seconds, not -3",
        ),
        (
            "5 --work 1 --fails-at 1.5 ./a",
            "the part of the work after which it fails must be above 0, at most 1, not 1.5",
        ),
        (
            "5 --work 1 --steps 0 ./a",
            "--steps must be a finite number of at least 1, not 0",
        ),
        (
            "5 --work 1 --steps 5 --no-steps ./a",
            "--steps and --no-steps exclude each other: give only one of them",
        ),
        (
            "5 --work 1 --requests 5 ./a",
            "Invalid value for '--requests': must be RATE:SECONDS, or RATE:SECONDS:FACTOR:SECONDS"
            ":EVERY with bursts, not '5': there are 1 numbers",
        ),
        (
            "5 --work 1 --requests nan:1 ./a",
            "Invalid value for '--requests': must be RATE:SECONDS, or RATE:SECONDS:FACTOR:SECONDS"
            ":EVERY with bursts, not 'nan:1': the rate of requests must be a finite number above 0",
        ),
        (
            "5 --work 1 --slo p99=50ms ./a",
            "--slo is the objective of a service: give --requests, too",
        ),
        (
            "5 --work 1 --requests 5:0.01 --slo p99=0ms ./a",
            "slo must be a percentile below 100 and a latency from 1 ms to 1 hour, such as",
        ),
        ("5 --work 1 --user '' ./a", "--user must not be empty"),
        (
            "5 --work 1 --min 3 --max 2 ./a",
            "a shape must have 1 ≤ min ≤ preferred ≤ max, not min 3, preferred 2, max 2",
        ),
        ("5 --work 1 --detach ./a", "--detach is not allowed in a workload file"),
        ("5 --work 1 --loud ./a", "No such option"),
    ],
)
def test_a_bad_line_is_named(read, tmp_path, line, message):
    heard = complaint(lambda: read(f"5 --work 1 ./a\n{line}\n"))
    assert heard.startswith(f"{tmp_path / 'mix.txt'}, line 2: {message}")


def test_a_file_without_jobs_is_an_error(read, tmp_path):
    assert complaint(lambda: read("# none\n")) == f"{tmp_path / 'mix.txt'} has no jobs"
    missing = tmp_path / "none"
    heard = complaint(lambda: read_plan(missing, Assumed()))
    assert heard == f"cannot read {missing}: No such file or directory"
