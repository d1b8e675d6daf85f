# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm top: what it shows, and that it leaves the terminal as it was."""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time
from contextlib import contextmanager

import pytest
from msgspec.structs import replace
from rich.console import Console

from tests.support import controllers
from tests.support.commands import CPU, running, started, tfm
from tests.support.controllers import TFM
from tests.support.deadline import DEADLINE
from tf_malleable.api.schema.elastic import Elastic
from tf_malleable.api.schema.messages import ControllerInfo, CpuInfo, JobStatus
from tf_malleable.api.schema.tier_reads import TierReading
from tf_malleable.cli.jobs.top_view import Scene, picture

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def job(number, name="train.py", state="running", **fields):
    """Return a job, running or not."""
    nothing = dict.fromkeys(
        ["by_hand", "steps_done", "steps_total", "steps_per_second", "used_cpus"]
    )
    zero = dict.fromkeys(["priority", "pid", "resizes"], 0)
    no_time = dict.fromkeys(["submitted", "started", "run_seconds", "paused_seconds"], 0.0)
    known = {"id": str(number), "name": name, "command": ["python", name], "user": "ada"}
    known |= {"state": state, "min": 1, "preferred": 4, "max": 4, "desired": 4, "weight": 1.0}
    known |= {"granted": [], "lent": [], "actual": [], "speeds": []}
    known |= {"held": False, "stopped": False, "malleable": True, "waiting_seconds": 12.5}
    known |= {**nothing, **zero, **no_time}
    return JobStatus(**{**known, **fields})


def info(cpus, nodes=1, problem=None):
    per_node = cpus // nodes
    return ControllerInfo(
        version="1",
        protocol=1,
        pid=1,
        started=0.0,
        policy="lend+equal",
        cpus=[CpuInfo(cpu, cpu, cpu // per_node) for cpu in range(cpus)],
        problem=problem,
    )


def text_of(scene, note="", colours=False):
    """Return the lines of a picture on a terminal with 80 columns."""
    output = io.StringIO()
    console = Console(
        file=output,
        width=80,
        force_terminal=colours,
        color_system="standard" if colours else None,
        markup=False,
    )
    console.print(picture(scene, note))
    return output.getvalue().splitlines()


def test_each_cpu_shows_the_letter_of_its_job():
    jobs = [job(1, granted=[0, 1, 2], lent=[3], actual=[0, 1]), job(2, granted=[4], lent=[6])]
    lines = text_of(Scene(info(8, nodes=2), jobs))
    (first,) = [line for line in lines if line.startswith("node 0")]
    (second,) = [line for line in lines if line.startswith("node 1")]
    assert first.split() == ["node", "0", "CPU", "0", "A", "A", "A", "-"]
    assert second.split() == ["node", "1", "CPU", "4", "B", ".", "-", "."]
    (row,) = [line for line in lines if line.startswith("A ")]
    assert row.split()[:7] == ["A", "1", "train.py", "running", "4", "3+1", "2"]


def test_a_borrowed_cpu_shows_who_uses_it():
    jobs = [job(1, lent=[0]), job(2, granted=[0])]
    (line,) = [line for line in text_of(Scene(info(1), jobs)) if line.startswith("CPU")]
    assert line.split() == ["CPU", "0", "B"]


def test_a_row_has_speed_progress_and_efficiency():
    jobs = [
        job(
            3,
            granted=[0, 1],
            actual=[0, 1],
            by_hand=2,
            desired=2,
            steps_done=30.0,
            steps_total=40.0,
            steps_per_second=7.25,
            used_cpus=1.5,
        )
    ]
    lines = text_of(Scene(info(2), jobs))
    assert "CPUs 2, 1.5 used, 75%" in lines[0]
    (row,) = [line for line in lines if line.startswith("C ")]
    words = row.split()
    assert words[:8] == ["C", "3", "train.py", "running", "2*", "2", "2", "7.2"]
    assert words[-4:] == ["75%", "75%", "12.5", "s"]


def test_power_is_shown_where_it_is_metered():
    jobs = [job(1, granted=[0], actual=[0])]
    assert not any("J/step" in line for line in text_of(Scene(info(2), jobs)))
    told = {"watts": 42.25, "energy_joules": 90.0, "steps_done": 40.0, "steps_total": 80.0}
    jobs = [replace(jobs[0], **told), job(2, granted=[1])]
    head, first, second = text_of(Scene(info(2), jobs))[-3:]
    assert head.split()[-2:] == ["W", "J/step"]
    assert first.split()[-2:] == ["~42.2", "~2.25"]
    assert second.split()[-2:] == ["-", "-"]
    jobs = [replace(jobs[0], energy_source="measured"), jobs[1]]
    assert text_of(Scene(info(2), jobs))[-2].split()[-2:] == ["42.2", "2.25"]


def test_generations_are_shown_where_a_job_is_elastic():
    jobs = [job(1, granted=[0], actual=[0]), job(2, "digits", granted=[1], actual=[1])]
    assert not any("generation" in line for line in text_of(Scene(info(2), jobs)))
    told = Elastic(
        workers=3, servers=1, generation=7, changed=0.0, reason="leave", pause_seconds=0.048
    )
    starts = Elastic(workers=0)
    jobs = [jobs[0], replace(jobs[1], elastic=told), replace(jobs[1], id="3", elastic=starts)]
    head, second, third = text_of(Scene(info(2), jobs))[-3:]
    names = "elastic workers servers generation last change paused"
    assert " ".join(head.split()) == names
    assert second.split()[:5] == ["B", "digits", "3", "1", "7"]
    assert second.split()[5:7] == ["leave", "at"]
    assert second.split()[-2:] == ["48", "ms"]
    assert third.split() == ["C", "digits", "0", "0", "0", "-", "-"]


def test_what_was_saved_is_shown_where_a_job_reads_through_a_tier():
    jobs = [job(1, granted=[0], actual=[0]), job(2, granted=[1], actual=[1])]
    assert not any("saved" in line for line in text_of(Scene(info(2), jobs)))
    reading = TierReading(source_bytes=3 << 20, saved_bytes=5 << 30)
    head, first, second = text_of(Scene(info(2), [replace(jobs[0], reading=reading), jobs[1]]))[-3:]
    assert head.split()[-3:] == ["from", "source", "saved"]
    assert first.split()[-4:] == ["3.0", "MiB", "5.0", "GiB"]
    assert second.split()[-2:] == ["-", "-"]


def test_the_queue_comes_last():
    jobs = [job(1, granted=[0], actual=[0]), job(2, "big.py", "waiting", min=2, priority=7)]
    lines = text_of(Scene(info(2), jobs))
    assert "jobs 2   queue 1" in lines[0]
    assert lines[-2].split()[:3] == ["id", "queue", "user"]
    assert lines[-1].split() == ["2", "big.py", "ada", "waiting", "2", "4", "7", "12.5", "s"]


def test_many_jobs_on_a_large_machine_fit_into_80_columns():
    jobs = [
        job(
            number,
            "a_training_with_quite_a_long_name.py",
            granted=[2 * number, 2 * number + 1],
            actual=[2 * number],
            steps_done=1e6,
            steps_total=3e6,
            steps_per_second=12345.6,
            used_cpus=2.0,
            waiting_seconds=98765.0,
            paused_seconds=86400.0,
        )
        for number in range(100, 128)
    ]
    lines = text_of(Scene(info(256, nodes=2), jobs))
    assert all(len(line) <= 80 for line in lines)
    strip = [line for line in lines if line.startswith("node")]
    assert len(strip) == 4
    row = next(line for line in lines if " 100 " in line)
    assert row.split()[3:7] == ["running", "4", "2", "1"]
    assert row.split()[2] == "a_trainin…g_name.py"
    assert "12345.6" in row


def test_more_jobs_than_lines_are_counted():
    jobs = [job(number, granted=[number]) for number in range(1, 31)]
    jobs += [job(number, "big.py", "waiting") for number in range(31, 41)]
    scene = Scene(info(64), jobs)
    for height in (24, 40, 45):
        output = io.StringIO()
        console = Console(file=output, width=80, height=height)
        console.print(picture(scene), height=height)
        lines = output.getvalue().splitlines()
        assert len(lines) == height
        shown = len([line for line in lines if "running" in line]) - 0
        waiting = len([line for line in lines if "waiting" in line and "big.py" in line])
        assert shown + waiting > height // 2
        more = [int(line.split()[1]) for line in lines if line.startswith("…")]
        assert sum(more) == len(jobs) - shown - waiting
        assert waiting >= 2
    assert not any(line.startswith("…") for line in text_of(scene))


def test_why_a_job_waits_is_shown():
    why = "it needs 4 cores, 0 of 2 are free"
    jobs = [job(1, granted=[0], actual=[0]), job(2, "big.py", "waiting", reason=why)]
    lines = text_of(Scene(info(2), jobs))
    assert lines[-2].split()[-1] == "reason"
    assert why in lines[-1]
    held = replace(jobs[0], granted=[], state="paused", reason="it is held for a shorter job")
    assert any("it is held for a sh" in line for line in text_of(Scene(info(2), [held])))


def test_colours_add_nothing_to_the_text():
    scene = Scene(info(4), [job(1, granted=[0, 1], actual=[0, 1]), job(2, "b", "waiting")])
    coloured = "\n".join(text_of(scene, colours=True))
    assert "\x1b[" in coloured
    assert ESCAPE.sub("", coloured).splitlines() == text_of(scene)


def test_problems_are_shown():
    lines = text_of(Scene(info(1, problem="policy x failed"), []), note="nobody answers")
    assert lines[1:3] == ["nobody answers", "policy x failed"]
    assert "no job runs" in lines


def test_a_pipe_gets_one_view_as_text(controller):
    with running("--name", "one"):
        result = tfm("top")
        assert (result.returncode, result.stderr) == (0, "")
        assert "\x1b" not in result.stdout
        lines = result.stdout.splitlines()
        assert lines[0].startswith("policy fcfs-strict   CPUs 1, ")
        assert any(line.split() == ["CPU", str(CPU), "A"] for line in lines)


def test_in_a_pipe_no_line_is_cut(controller):
    name = "a-training-with-a-name-" + "x" * 37
    with running("--name", name):
        assert name in tfm("top").stdout


def test_json_is_a_line_for_each_look(controller):
    with running("--name", "one"):
        result = tfm("top", "--once", "--json")
        document = json.loads(result.stdout)
        assert document["controller"]["policy"] == "fcfs-strict"
        assert [each["name"] for each in document["jobs"]] == ["one"]
        with started("top", "--json", "--interval", "0.1") as process:
            assert process.stdout is not None
            for _ in range(3):
                assert json.loads(process.stdout.readline())["jobs"][0]["id"] == "1"
            process.send_signal(signal.SIGINT)
            assert process.wait(DEADLINE) == 130


@pytest.mark.parametrize("interval", ["0", "-1", "soon", "nan"])
def test_an_interval_that_cannot_be_is_bad_input(interval):
    result = tfm("top", "--interval", interval)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert "--interval" in result.stderr


class Terminal:
    """A terminal with tfm top in it."""

    def __init__(self, *arguments):
        self.keyboard, self.end = os.openpty()
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.end)
        self.process = subprocess.Popen(
            [TFM, "top", "--interval", "0.1", *arguments],
            stdin=self.end,
            stdout=self.end,
            stderr=self.end,
            env={**os.environ, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        self.text = ""

    def see(self, *wanted):
        """Read until all of this has been shown since the last time."""
        end = time.monotonic() + DEADLINE
        self.text = ""
        while not all(each in ESCAPE.sub("", self.text) for each in wanted):
            assert time.monotonic() < end, self.text
            if select.select([self.keyboard], [], [], 0.1)[0]:
                self.text += os.read(self.keyboard, 1 << 16).decode(errors="replace")

    def finish(self):
        """Return the exit code and what was written last; the terminal must be as before."""
        end = time.monotonic() + DEADLINE
        while self.process.poll() is None:
            assert time.monotonic() < end
            if select.select([self.keyboard], [], [], 0.05)[0]:
                self.text += os.read(self.keyboard, 1 << 16).decode(errors="replace")
        while select.select([self.keyboard], [], [], 0.1)[0]:
            self.text += os.read(self.keyboard, 1 << 16).decode(errors="replace")
        assert termios.tcgetattr(self.end) == self.before
        # Back from the second screen, the cursor is seen again.
        assert self.text.rindex("\x1b[?1049l") > self.text.rfind("\x1b[?1049h")
        assert self.text.rindex("\x1b[?25h") > self.text.rfind("\x1b[?25l")
        return self.process.returncode


@contextmanager
def terminal(*arguments):
    shown = Terminal(*arguments)
    try:
        yield shown
    finally:
        shown.process.kill()
        shown.process.wait(DEADLINE)
        os.close(shown.keyboard)
        os.close(shown.end)


@pytest.mark.parametrize(
    ("how", "code"),
    [("q", 0), (signal.SIGINT, 0), (signal.SIGTERM, 143)],
)
def test_live_until_it_is_told_to_end(controller, how, code):
    with running("--name", "live-job"), terminal() as top:
        top.see("fcfs-strict", "live-job", "running")
        if isinstance(how, str):
            os.write(top.keyboard, b"x")
            top.see("live-job")
            os.write(top.keyboard, how.encode())
        else:
            top.process.send_signal(how)
        assert top.finish() == code
        assert "Traceback" not in top.text


def test_live_it_follows_what_happens(controller):
    with terminal() as top:
        top.see("no job runs")
        with running("--name", "comes-and-goes"):
            top.see("comes-and-goes", "running")
        top.see("no job runs")


def test_live_it_survives_the_controller(controller, tmp_path):
    with running("--name", "live-job"), terminal() as top:
        top.see("live-job")
        controller.stop(signal.SIGKILL)
        top.see("no controller answers at", "this is its last answer", "live-job")
        with controllers.controller(tmp_path, "--cpus", str(CPU), "--policy", "srpt"):
            top.see("policy srpt", "live-job")
        os.write(top.keyboard, b"q")
        assert top.finish() == 0
