# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whatever becomes of the controller, the job goes on and finds the next one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import ROOT, fake_controller
from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE
from tests.support.jobs import ALL, FIRST, LAST, Job
from tf_malleable.agent.agent import Agent
from tf_malleable.agent.session import connection_to
from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.api.schema.join import Join

# Says how far it has counted.
COUNTING = """
import sys, threading
import tf_malleable

def count():
    global n
    while True:
        n += 1

n = 0
threading.Thread(target=count, daemon=True).start()
for line in sys.stdin:
    print(n, flush=True)
"""

LONG_LINE = b'{"serial": ' + b"1" * (2 << 20) + b"}\n"
NO_GRANTS = [
    b"hello\n",
    b"\xff\xfe\n",
    b"[]\n",
    b"{}\n",
    b'{"serial": -1, "state": "running", "cpus": [0], "lent": []}\n',
    b'{"serial": 1, "state": "jogging", "cpus": [0], "lent": []}\n',
    b'{"serial": 1, "state": "running", "cpus": ["0"], "lent": []}\n',
    b'{"serial": 1, "state": "running", "cpus": 0, "lent": []}\n',
    b'{"serial": 1, "state": "running", "cpus": [99999999999999999999], "lent": []}\n',
    b"[" * 100_000 + b"\n",
    LONG_LINE,
]


def works(job: Job) -> bool:
    """Return whether the program gets on."""
    before = int(job.ask())
    deadline = time.monotonic() + DEADLINE
    while int(job.ask()) == before:
        assert time.monotonic() < deadline
    return True


def test_a_controller_that_comes_later_is_found(fake):
    fake.close()
    with Job(COUNTING, fake.path) as job:
        assert works(job)
        fake.grant(FIRST)
        fake.open()
        fake.wait_for_acknowledgement(fake.serial)
        assert job.is_on(FIRST)


@pytest.mark.serial("it measures time")
def test_a_controller_that_comes_back_is_found_soon(fake):
    with Job(COUNTING, fake.path) as job:
        for round_, cpus in enumerate((FIRST, LAST, FIRST), start=1):
            fake.wait_for_acknowledgement(fake.grant(cpus))
            reports = len(fake.heard("progress"))
            fake.wait(lambda n=reports: len(fake.heard("progress")) >= n + 2)
            fake.close()
            assert works(job)
            assert job.is_on(cpus)
            fake.open()
            begin = time.monotonic()
            fake.wait(lambda n=round_: len(fake.heard("jobs")) > n)
            # It had been a good connection: no waiting for up to ten seconds.
            assert time.monotonic() - begin < 5


def test_pauses_grow_until_there_is_a_good_connection(monkeypatch, tmp_path):
    outcomes = [False] * 9 + [OSError(), True, False, False]
    pauses: list[float] = []

    def attend(_):
        outcome = outcomes[len(pauses)]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def rest(self, seconds):
        pauses.append(seconds)
        if len(pauses) == len(outcomes):
            self._over.set()

    monkeypatch.setattr(Agent, "_serve_session", attend)
    monkeypatch.setattr(Agent, "_rest", rest)
    join = Join(str(tmp_path / "c.sock"), JobRequest("n"))
    Agent(join, connection_to(join))._run()
    expected = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10, 0.1, 0.2, 0.4]
    assert pauses == pytest.approx(expected, rel=0.21)
    assert len(set(pauses[7:10])) == 3


@pytest.mark.parametrize("garbage", NO_GRANTS, ids=lambda line: repr(line[:40]))
def test_lines_that_are_no_grants(fake, garbage):
    with Job(COUNTING, fake.path) as job:
        fake.wait_for_acknowledgement(fake.grant(FIRST))
        fake.send(garbage, keep=True)
        fake.wait(lambda: len(fake.heard("jobs")) >= 3)
        fake.wait_for_acknowledgement(fake.grant(LAST))
        assert works(job)
        assert job.end()[::2] == (0, "")


@pytest.mark.slow
def test_a_controller_that_is_none_or_of_another_version(fake):
    fake.answer_with("jobs", lambda h: h.answer(404, {"error": "this controller speaks /v2"}))
    with Job(COUNTING, fake.path) as job:
        for answer in (
            b"",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            lambda handler: handler.answer(200, {"id": 7}),
            lambda handler: handler.answer(200, ["id"]),
            None,
        ):
            seen = len(fake.heard("jobs"))
            fake.wait(lambda n=seen: len(fake.heard("jobs")) > n)
            assert works(job)
            fake.answer_with("jobs", answer)
        fake.wait_for_acknowledgement(fake.grant(FIRST))
        assert job.end()[::2] == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["acknowledgements", "progress", "grants"])
def test_other_requests_that_fail(fake, kind):
    fake.answer_with(kind, lambda handler: handler.answer(500, {"error": "oh"}))
    fake.grant(FIRST)
    with Job(COUNTING, fake.path) as job:
        fake.wait(lambda: len(fake.heard("jobs")) >= 3)
        fake.answer_with(kind, None)
        seen = len(fake.heard("progress"))
        fake.wait(lambda: len(fake.heard("progress")) > seen + 1)
        assert works(job)
        assert job.is_on(FIRST)
        assert job.end()[::2] == (0, "")


@contextmanager
def fake_process(path: Path, notes: Path):
    """Run the fake controller as a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", fake_controller.__name__, path, notes], cwd=ROOT
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        path.unlink(missing_ok=True)


def heard(notes: Path, kind: str) -> int:
    lines = notes.read_text().splitlines() if notes.exists() else []
    return sum(json.loads(line)[0] == kind for line in lines)


@pytest.mark.slow
def test_a_controller_that_is_killed_or_stopped(tmp_path):
    path, notes = tmp_path / "c.sock", tmp_path / "notes"
    with Job(COUNTING, path) as job:
        with fake_process(path, notes) as controller:
            wait_for(lambda: heard(notes, "progress") >= 2, DEADLINE)
            assert job.is_on({0})
            os.kill(controller.pid, signal.SIGSTOP)
            for _ in range(3):
                assert works(job)
                time.sleep(0.1)
            os.kill(controller.pid, signal.SIGCONT)
            seen = heard(notes, "progress")
            wait_for(lambda: heard(notes, "progress") > seen + 1, DEADLINE)
            os.kill(controller.pid, signal.SIGKILL)
        assert works(job)
        os.sched_setaffinity(job.pid, ALL)
        joined = heard(notes, "jobs")
        with fake_process(path, notes):
            wait_for(lambda: heard(notes, "jobs") > joined, DEADLINE)
            wait_for(lambda: job.is_on({0}), DEADLINE)
        assert job.end()[::2] == (0, "")


def test_a_job_that_is_stopped_goes_on_where_it_was(fake):
    with Job(COUNTING, fake.path) as job:
        fake.wait_for_acknowledgement(fake.grant(FIRST))
        job.send(signal.SIGSTOP)
        serial = fake.grant(LAST)
        time.sleep(0.3)
        job.send(signal.SIGCONT)
        fake.wait_for_acknowledgement(serial)
        assert works(job)
        assert len(fake.heard("jobs")) == 1
