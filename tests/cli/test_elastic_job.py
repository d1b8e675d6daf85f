# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm elastic local as one job of a host's controller."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import pytest

from tests.support import ROOT, controllers
from tests.support.commands import tfm
from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE
from tests.support.elastic_training import AHEAD, STEPS, undisturbed, write_whole
from tests.support.fake_controller import FakeController

WORDS, SHARDS = 500, 4
CPUS = sorted(os.sched_getaffinity(0))[:2]
BOTH = set(CPUS)
TFM = [sys.executable, "-m", "tf_malleable_cli"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs"),
]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


@pytest.fixture
def fake(socket):
    socket.parent.mkdir(mode=0o700)
    with FakeController(socket) as found:
        answer = {"id": "7", "is_caller": True}
        found.answer_with("jobs", lambda handler: handler.answer(201, answer))
        yield found


class Training:
    """tfm elastic local with the small training; its workers can use one core each."""

    def __init__(self, folder, process):
        self.folder, self.process = folder, process

    def status(self):
        result = tfm("elastic", "status", "--json")
        return json.loads(result.stdout) if result.returncode == 0 else {}

    def members(self):
        """Return the pids of the workers that train; none while that changes."""
        status = self.status()
        if status.get("phase") != "steady":
            return []
        return [
            int(each["place"].rpartition(":")[2])
            for each in status["processes"]
            if each["state"] == "in the training" and not each["leaving"]
        ]

    def wait_for_members(self, count):
        return wait_for(lambda: len(found := self.members()) == count and found, DEADLINE)

    def finish(self):
        steps = self.status()["step"] + AHEAD
        write_whole(self.folder / STEPS, str(steps))
        assert self.process.wait(DEADLINE) == 0
        found = [json.loads(path.read_text()) for path in self.folder.glob("*.json")]
        trained = {each["digest"] for each in found if each["how"] == "trained"}
        assert trained == {undisturbed(WORDS, steps, SHARDS)}


@contextmanager
def training(folder, *words):
    """Run it with these words before --, or for tfm run and --threads 1."""
    folder = folder / "training"
    folder.mkdir()
    script = [sys.executable, "-m", "tests.support.elastic_training", str(folder)]
    script += ["--words", str(WORDS), "--shard-seconds", "0.005"]
    words = words or ("elastic", "local", "--workers", "1:2")
    errors = folder / "errors.txt"
    with errors.open("w") as file:
        process = subprocess.Popen(
            [*TFM, *words, "--", *script], stderr=file, stdin=subprocess.DEVNULL
        )
    try:
        yield Training(folder, process)
    finally:
        process.terminate()
        process.wait(DEADLINE)
        print(errors.read_text())


ONE_CORE_EACH = ("run", "--", *TFM, "elastic", "local", "--workers", "1:2", "--threads", "1")


def affinities(pid):
    """Return the CPUs of each thread of a process."""
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with suppress(ProcessLookupError):
            found.append(os.sched_getaffinity(int(thread)))
    return found


def descendants(pid):
    found = [pid]
    for each in found:
        with suppress(FileNotFoundError, ProcessLookupError):
            for thread in os.listdir(f"/proc/{each}/task"):
                with open(f"/proc/{each}/task/{thread}/children") as file:
                    found += map(int, file.read().split())
    return found


def are_within(training, cpus):
    for pid in descendants(training.process.pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            assert all(each <= cpus for each in affinities(pid)), pid
    return True


def test_a_training_is_one_job_and_its_workers_have_parts_of_the_grant(tmp_path, fake):
    fake.grant(BOTH)
    with training(tmp_path, *ONE_CORE_EACH) as running:
        workers = running.wait_for_members(2)
        parts = wait_for(lambda: len(p := [affinities(w)[0] for w in workers]) and p)
        wait_for(lambda: [len(affinities(w)[0]) for w in workers] == [1, 1])
        parts = [affinities(worker)[0] for worker in workers]
        assert set().union(*parts) == BOTH
        # One process speaks for all: it submits, acknowledges, and reports.
        assert {heard.pid for heard in fake.state.heard} == {running.process.pid}
        serial = fake.grant(BOTH - {CPUS[1]})
        fake.wait_for_acknowledgement(serial)
        assert are_within(running, {CPUS[0]})
        serial = fake.grant(BOTH - {CPUS[0]})
        fake.wait_for_acknowledgement(serial)
        assert are_within(running, {CPUS[1]})
        (left,) = running.wait_for_members(1)
        assert affinities(left)[0] == {CPUS[1]}
        running.finish()


def test_a_step_counts_once(tmp_path, fake):
    fake.grant(BOTH)
    with training(tmp_path, *ONE_CORE_EACH) as running:
        running.wait_for_members(2)
        before = running.status()["step"]
        told = fake.wait_for_progress(
            lambda body: body["elastic"]["workers"] == 2 and body["steps_done"] > before
        )
        assert told["steps_done"] <= running.status()["step"]
        assert told["elastic"]["generation"] >= 2
        assert told["elastic"]["most_workers"] == 2
        assert told["elastic"]["reason"] in ("join", "speed")
        running.finish()


def test_an_older_controller_is_spoken_to_as_it_understands(tmp_path, fake):
    def refuse(handler):
        assert handler.path.endswith("?split=true")
        fake.answer_with("grants", None)
        handler.answer(400, {"error": "grants takes no parameters"})

    fake.state.on_heard = lambda heard: (
        fake.answer_with("grants", refuse) if heard.body.get("running") else None
    )
    fake.grant({CPUS[0]})
    with training(tmp_path) as running:
        (worker,) = running.wait_for_members(1)
        told = fake.wait_for_progress(lambda body: "steps_done" in body)
        assert "elastic" not in told
        assert affinities(worker)[0] == {CPUS[0]}
        running.finish()


def test_a_controller_that_goes_away_leaves_the_last_grant(tmp_path, fake):
    fake.grant({CPUS[1]})
    with training(tmp_path) as running:
        (worker,) = running.wait_for_members(1)
        fake.close()
        time.sleep(1)
        assert affinities(worker)[0] == {CPUS[1]}
        fake.open()
        serial = fake.grant(BOTH)
        fake.wait_for_acknowledgement(serial)
        assert affinities(worker)[0] == BOTH
        running.finish()


def test_set_decides_until_auto(tmp_path, fake):
    fake.grant(BOTH)
    with training(tmp_path, "elastic", "local", "--workers", "1:2", "--shards", "4") as running:
        running.wait_for_members(1)  # It can use both.
        assert tfm("elastic", "set", "2").returncode == 0
        running.wait_for_members(2)
        wanted = running.status()["wanted"]
        assert (wanted["workers"], wanted["by_hand"], wanted["can_decide"]) == (2, True, True)
        assert tfm("elastic", "set", "auto").returncode == 0
        wait_for(lambda: not running.status()["wanted"]["by_hand"])
        running.finish()


@pytest.mark.parametrize("options", [("--no-controller",), ("--threads", "1")])
def test_it_can_be_no_job(tmp_path, fake, options):
    fake.grant({CPUS[0]})
    with training(tmp_path, "elastic", "local", *options) as running:
        running.wait_for_members(1)
        assert not fake.state.heard
        refused = tfm("elastic", "set", "auto")
        assert refused.returncode == 1
        assert "no controller grants cores to this training" in refused.stderr
        running.finish()


def test_it_must_be_a_job_where_a_controller_is_required(monkeypatch):
    monkeypatch.setenv("TF_MALLEABLE_REQUIRE_CONTROLLER", "1")
    for option in (["--no-controller"], ["--threads", "1"]):
        result = tfm("elastic", "local", *option, "--", "true")
        assert result.returncode == 2
        assert f"{option[0]} runs without a controller" in result.stderr
    result = tfm("elastic", "local", "--", "true")
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)


def test_it_grows_and_shrinks_with_its_grant(tmp_path):
    shared = ",".join(map(str, CPUS))
    with (
        controllers.controller(tmp_path, "--cpus", shared, "--policy", "equal") as controller,
        training(tmp_path, *ONE_CORE_EACH) as running,
    ):
        first = running.wait_for_members(2)

        def job():
            return next((j for j in controller.get("/v1/jobs")["jobs"] if j["elastic"]), None)

        # It is known to be elastic from its first report on.
        wait_for(lambda: (j := job()) and j["elastic"]["workers"] == 2)
        with controllers.job(controller.socket) as other:
            other.submit(running=True, max=1)
            wait_for(lambda: len(job()["actual"]) == 1)
            assert are_within(running, set(job()["actual"]))
            (left,) = running.wait_for_members(1)
            assert left in first
        wait_for(lambda: len(job()["actual"]) == 2)
        workers = running.wait_for_members(2)
        wait_for(lambda: [len(affinities(w)[0]) for w in workers] == [1, 1])
        found = wait_for(
            lambda: (j := job())["elastic"]["workers"] == 2 and j["steps_per_second"] and j
        )
        assert found["elastic"]["generation"] >= 4
        assert "generation" in tfm("top", "--once").stdout
        running.finish()
        (record,) = wait_for(
            lambda: [j for j in controller.get("/v1/history")["jobs"] if j["elastic"]]
        )
        assert record["outcome"] == "finished"
        assert record["elastic"]["most_workers"] == 2
        assert "longest pause" in tfm("history").stdout
        assert "2 at most" in tfm("show", record["id"]).stdout


def test_cancelling_the_job_ends_all_of_it(tmp_path):
    shared = ",".join(map(str, CPUS))
    with (
        controllers.controller(tmp_path, "--cpus", shared) as controller,
        training(tmp_path) as running,
    ):
        (worker,) = running.wait_for_members(1)
        (job,) = controller.get("/v1/jobs")["jobs"]
        everything = descendants(running.process.pid)
        assert worker in everything
        assert tfm("cancel", job["id"]).returncode == 0
        assert running.process.wait(DEADLINE) == 128 + signal.SIGTERM
        wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in everything))
        (left,) = (json.loads(path.read_text()) for path in running.folder.glob("*.json"))
        assert left["how"] == "left"


def test_a_paused_job_goes_on_where_it_was(tmp_path):
    shared = ",".join(map(str, CPUS))
    with (
        controllers.controller(tmp_path, "--cpus", shared) as controller,
        training(tmp_path, *ONE_CORE_EACH) as running,
    ):
        running.wait_for_members(2)
        (job,) = controller.get("/v1/jobs")["jobs"]
        assert tfm("pause", job["id"]).returncode == 0
        time.sleep(3)
        assert tfm("resume", job["id"]).returncode == 0
        running.wait_for_members(2)
        running.finish()
