# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Workers of tfm elastic local that are told to go, and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.commands import tfm
from tests.support.deadline import DEADLINE
from tests.support.elastic_runs import wait_until
from tests.support.elastic_training import AHEAD, STEPS, undisturbed, write_whole

WORDS = 500

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


class Local:
    """tfm elastic local with the small training, as a process group of its own."""

    def __init__(self, folder, *options):
        self.folder = folder
        script = [sys.executable, "-m", "tests.support.elastic_training", str(folder)]
        script += ["--words", str(WORDS), "--shard-seconds", "0.005"]
        words = [sys.executable, "-m", "tf_malleable_cli", "elastic", "local", *options]
        self.errors = folder / "errors.txt"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [*words, "--", *script],
                stderr=errors,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with suppress(ProcessLookupError):  # Also if it has left others behind.
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE)
        print(self.said())

    def said(self):
        return self.errors.read_text()

    def status(self):
        result = tfm("elastic", "status", "--json")
        return json.loads(result.stdout) if result.returncode == 0 else {}

    def pids(self, role="worker"):
        status = self.status()
        if status.get("phase") != "steady":
            return []
        return [
            int(each["place"].rpartition(":")[2])
            for each in status["processes"]
            if each["role"] == role and each["state"] == "in the training" and not each["leaving"]
        ]

    def wait_for(self, count, role="worker", but=()):
        found = []

        def is_so():
            found[:] = self.pids(role)
            return len(found) == count and not set(found) & set(but)

        wait_until(is_so, lambda: f"{self.status()} {self.said()}")
        return found

    def wait_until_wanted(self, count, role="worker"):
        """The supervisor notes a departure after the training has gone on without the one."""
        wait_until(lambda: self.status()["wanted"][f"{role}s"] == count, self.said)

    def finish(self):
        steps = self.status()["step"] + AHEAD
        write_whole(self.folder / STEPS, str(steps))
        assert self.process.wait(DEADLINE) == 0
        trained = {each["digest"] for each in self.results() if each["how"] == "trained"}
        assert trained == {undisturbed(WORDS, steps, 4)}
        assert "begins again" not in self.said()

    def results(self):
        return [json.loads(path.read_text()) for path in self.folder.glob("*.json")]


def test_one_more_than_the_fewest_is_not_replaced(tmp_path):
    with Local(tmp_path, "--workers", "1:3") as local:
        local.wait_for(1)
        assert tfm("elastic", "set", "2").returncode == 0
        first, second = local.wait_for(2)
        os.kill(first, signal.SIGTERM)
        assert local.wait_for(1) == [second]
        local.wait_until_wanted(1)
        assert tfm("elastic", "set", "2").returncode == 0
        local.wait_for(2)
        local.finish()


def test_one_of_the_fewest_is_replaced(tmp_path):
    with Local(tmp_path, "--workers", "2") as local:
        first, second = local.wait_for(2)
        os.kill(first, signal.SIGTERM)
        assert second in local.wait_for(2, but=[first])
        local.finish()


def test_the_only_one_hands_over_to_its_replacement(tmp_path):
    with Local(tmp_path, "--workers", "1") as local:
        (first,) = local.wait_for(1)
        os.kill(first, signal.SIGTERM)
        local.wait_for(1, but=[first])
        # It says so a moment after the other one has the training.
        wait_until(lambda: [each["how"] for each in local.results()] == ["left"], local.said)
        local.finish()


def test_a_server_that_is_told_to_go_is_not_replaced(tmp_path):
    with Local(tmp_path, "--workers", "1", "--servers", "2") as local:
        local.wait_for(1)
        first, second = local.wait_for(2, "server")
        os.kill(first, signal.SIGTERM)
        assert local.wait_for(1, "server") == [second]
        local.wait_until_wanted(1, "server")
        local.finish()


def test_without_replacement_the_end_of_the_last_is_no_success(tmp_path):
    with Local(tmp_path, "--workers", "2", "--no-replace") as local:
        first, second = local.wait_for(2)
        os.kill(first, signal.SIGTERM)
        assert local.wait_for(1) == [second]
        os.kill(second, signal.SIGTERM)
        assert local.process.wait(DEADLINE) == 1
        assert "no worker is left, and the training has not ended" in local.said()
        assert [each["how"] for each in local.results()] == ["left", "left"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_what_reaches_all_at_once_ends_all_in_order(tmp_path, number):
    with Local(tmp_path, "--workers", "2", "--servers", "1") as local:
        local.wait_for(2)
        local.wait_for(1, "server")
        os.killpg(local.process.pid, number)  # As a terminal does.
        assert local.process.wait(DEADLINE) == 128 + number
        with pytest.raises(ProcessLookupError):
            os.killpg(local.process.pid, 0)
        assert [each["how"] for each in local.results()] == ["left", "left"]
        assert "Traceback" not in local.said()


def test_when_it_is_killed_its_processes_leave_in_order(tmp_path):
    with Local(tmp_path, "--workers", "2", "--servers", "1") as local:
        local.wait_for(2)
        local.wait_for(1, "server")
        local.process.kill()
        local.process.wait(DEADLINE)

        def are_gone():
            try:
                os.killpg(local.process.pid, 0)
            except ProcessLookupError:
                return True
            return False

        wait_until(are_gone, local.said)
        assert [each["how"] for each in local.results()] == ["left", "left"]
        assert "Traceback" not in local.said()


def test_one_that_is_to_leave_waits_for_none_that_hangs(tmp_path):
    """Which nobody would find out without a coordinator."""
    with Local(tmp_path, "--workers", "2") as local:
        first, second = local.wait_for(2)
        started = f"/proc/{local.process.pid}/task/{local.process.pid}/children"
        children = {int(each) for each in Path(started).read_text().split()}
        (coordinator,) = children - {first, second}
        os.kill(second, signal.SIGSTOP)
        local.process.kill()
        local.process.wait(DEADLINE)
        os.kill(coordinator, signal.SIGKILL)
        wait_until(lambda: [each["how"] for each in local.results()] == ["left"], local.said)


def test_ctrl_c_while_workers_start_leaves_nothing(tmp_path):
    with Local(tmp_path, "--workers", "2") as local:
        wait_until(lambda: bool(local.status()), local.said)
        os.killpg(local.process.pid, signal.SIGINT)
        assert local.process.wait(DEADLINE) == 130
        with pytest.raises(ProcessLookupError):
            os.killpg(local.process.pid, 0)
        assert "Traceback" not in local.said()


def test_a_second_ctrl_c_waits_for_nobody(tmp_path):
    with Local(tmp_path, "--workers", "2") as local:
        first, _ = local.wait_for(2)
        os.kill(first, signal.SIGSTOP)  # It cannot hand over.
        os.killpg(local.process.pid, signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            local.process.wait(3)
        os.killpg(local.process.pid, signal.SIGINT)
        assert local.process.wait(DEADLINE) == 130
        assert not os.path.exists(f"/proc/{first}")
