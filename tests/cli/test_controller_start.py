# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The first job in the background starts a controller, which nobody has to keep."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.commands import started, tfm
from tests.support.controllers import TFM, Client, ask, controller, wait_for
from tests.support.deadline import DEADLINE
from tests.support.descriptors import open_files
from tests.support.fixtures import directory as directory

# Time enough for a loaded machine to submit a job to a controller that is idle.
IDLE, LONGER = "4s", "6"
STARTED = "tfm: a controller runs in the background now (pid "


class Place:
    """Where the controller of a user without one is looked for."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "tf_malleable" / "controller.sock"
        self.log = folder / "state" / "tf_malleable" / "controller.log"
        self.outputs = folder / "state" / "tf_malleable" / "output"
        self.config = folder / "config"
        self.absence = (
            f"no controller answers at {self.socket}; start one with: tfm controller --detach"
        )

    def info(self) -> dict[str, object]:
        status, info = ask(self.socket, "GET", "/v1")
        assert status == 200
        return info

    def stored(self) -> list[Path]:
        return [*self.outputs.glob("*.job")]

    def pid(self) -> int | None:
        """Return the controller's pid; None if there is none."""
        with suppress(OSError, ValueError):
            return int(self.socket.with_name("controller.sock.lock").read_text())
        return None


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A user without a controller, whose jobs and controller are ended afterwards."""
    monkeypatch.delenv("TF_MALLEABLE_SOCKET")
    monkeypatch.delenv("TF_MALLEABLE_HOST", raising=False)
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    here = Place(tmp_path)
    yield here
    with suppress(OSError):
        for job in ask(here.socket, "GET", "/v1/jobs")[1]["jobs"]:
            os.kill(job["pid"], signal.SIGKILL)
    if (pid := here.pid()) is not None:
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: here.pid() is None)


def test_the_first_submit_starts_one_and_the_second_finds_it(place):
    first = tfm("submit", "--", "echo", "ran")
    assert (first.returncode, first.stdout) == (0, "1\n")
    pid = place.pid()
    assert first.stderr == f"{STARTED}{pid}); tfm status shows it\n"
    second = tfm("submit", "--", "true")
    assert (second.returncode, second.stdout, second.stderr) == (0, "2\n", "")
    assert tfm("wait", "1", "2").returncode == 0
    assert tfm("logs", "1").stdout == "ran\n"
    assert place.info()["pid"] == pid


@pytest.mark.slow
def test_it_waits_for_no_job_that_it_resumes(place):
    """Which may run for days, and writes where the controller does."""
    tfm("submit", "--requeue", "--name", "long", "--", "sleep", "600")
    (job,) = ask(place.socket, "GET", "/v1/jobs")[1]["jobs"]
    # Or else it has waited only.
    wait_for(lambda: [json.loads(one.read_text())["started"] for one in place.stored()] == [True])
    keeper = int(Path(f"/proc/{job['pid']}/stat").read_text().rpartition(")")[2].split()[1])
    lost = place.pid()
    for pid in (lost, keeper, job["pid"]):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: place.pid() != lost or not Path(f"/proc/{lost}").exists())
    second = tfm("submit", "--", "true")
    assert second.returncode == 0, second.stderr
    assert second.stderr == f"{STARTED}{place.pid()}); tfm status shows it\n"
    wait_for(lambda: "job 1 (long) was interrupted and is submitted again" in place.log.read_text())
    assert "long" in {each["name"] for each in ask(place.socket, "GET", "/v1/jobs")[1]["jobs"]}


def test_it_leaves_the_terminal_and_keeps_nothing_of_it(place):
    with open(os.devnull) as kept:
        os.set_inheritable(kept.fileno(), True)
        done = subprocess.run(
            [sys.executable, TFM, "controller", "--detach"], close_fds=False, check=False
        )
    assert done.returncode == 0
    pid = place.pid()
    assert pid is not None
    assert os.getsid(pid) == pid
    links = open_files(pid)
    assert (links[0], links[1], links[2]) == (os.devnull, os.devnull, str(place.log))
    assert os.devnull not in {link for number, link in links.items() if number > 2}
    os.kill(pid, signal.SIGHUP)
    assert place.info()["pid"] == pid


def test_it_outlives_the_terminal(place):
    child, terminal = os.forkpty()
    if child == 0:
        os.execvp(sys.executable, [sys.executable, TFM, "submit", "--", "sleep", "600"])
    said = b""
    while b"\n1\r\n" not in said:
        said += os.read(terminal, 1 << 16)
    assert STARTED.encode() in said
    os.close(terminal)
    os.waitpid(child, 0)
    assert place.info()["pid"] == place.pid()
    assert [job["state"] for job in ask(place.socket, "GET", "/v1/jobs")[1]["jobs"]] == ["running"]


@pytest.mark.slow
def test_two_at_once_start_one(place):
    with started("submit", "--", "true") as one, started("submit", "--", "true") as other:
        said = [each.communicate(timeout=DEADLINE) for each in (one, other)]
    assert sorted(output for output, _ in said) == ["1\n", "2\n"], said
    assert place.log.read_text().count("listening at") == 1


def test_status_names_it(place):
    assert tfm("submit", "--", "sleep", "600").returncode == 0
    lines = dict(line.split(maxsplit=1) for line in tfm("status").stdout.splitlines())
    assert lines["controller"].startswith(f"pid {place.pid()} of ")
    assert lines["socket"] == str(place.socket)
    assert lines["log"] == str(place.log)
    assert lines["ends"] == "after 24:00:00 without jobs and requests"
    assert lines["jobs"] == "1"
    said = json.loads(tfm("status", "--json").stdout)
    assert said == {"socket": str(place.socket), **place.info(), "jobs": 1}
    assert lines["policy"] == said["policy"]
    assert lines["CPUs"].endswith(f" ({len(os.sched_getaffinity(0))})")


def test_status_of_none_is_an_error(place):
    done = tfm("status")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"tfm: {place.absence}\n"


@pytest.mark.parametrize("off", ["option", "variable", "file"])
def test_it_can_be_turned_off(place, monkeypatch, off):
    if off == "variable":
        monkeypatch.setenv("TF_MALLEABLE_SUBMIT_START_CONTROLLER", "0")
    if off == "file":
        settings = place.config / "tf_malleable" / "config.ini"
        settings.parent.mkdir(parents=True)
        settings.write_text("[submit]\nstart-controller = no\n")
    options = ["--no-start-controller"] if off == "option" else []
    done = tfm("submit", *options, "--", "true")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"tfm: {place.absence}\n"
    assert not place.socket.parent.exists()


def test_a_program_that_does_not_exist_needs_none(place):
    assert tfm("submit", "--", "no-such-program").returncode == 127
    assert not place.socket.parent.exists()


@pytest.mark.slow
def test_a_program_in_the_foreground_starts_one_only_if_asked(place):
    done = tfm("run", "--", "echo", "alone")
    assert (done.returncode, done.stdout) == (0, "alone\n")
    assert done.stderr == f"tfm: no controller answers at {place.socket}, running alone\n"
    assert not place.socket.parent.exists()
    done = tfm("run", "--start-controller", "--", "sh", "-c", "echo ${TF_MALLEABLE_JOIN:+job}")
    assert (done.returncode, done.stdout) == (0, "job\n")
    assert done.stderr.startswith(STARTED)
    ended = json.loads(tfm("history", "--json").stdout)["jobs"]
    assert [job["name"] for job in ended] == ["sh"]


def test_none_is_started_inside_a_job(place, monkeypatch):
    monkeypatch.setenv("TF_MALLEABLE_JOIN", "{}")
    assert tfm("submit", "--", "true").returncode == 1
    assert not place.socket.exists()


@pytest.mark.slow
def test_none_is_started_beside_another_that_has_these_cpus(place, monkeypatch, directory):
    claims = directory / "claims"
    claims.mkdir(0o700)
    monkeypatch.setenv("TF_MALLEABLE_CLAIMS", str(claims))
    with controller(directory) as other:
        done = tfm("submit", "--", "true")
        assert (done.returncode, done.stdout) == (1, "")
        said = (
            f"tfm: no controller answers at {place.socket}, and none can be started: a controller"
        )
        assert done.stderr.startswith(said)
        assert "already shares out CPUs" in done.stderr
        assert f"listens at {other.socket}: use that one" in done.stderr
        assert not place.socket.exists()


def test_a_service_is_left_to_systemd(place):
    unit = place.config / "systemd" / "user" / "tf_malleable.service"
    unit.parent.mkdir(parents=True)
    unit.touch()
    done = tfm("submit", "--", "true")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"tfm: no controller answers at {place.socket}, and {unit} keeps one: systemctl --user"
        " start tf_malleable.service\n"
    )


def test_why_it_cannot_start_is_said(place):
    (place.log.parents[1]).write_text("not a folder")
    done = tfm("submit", "--", "true")
    assert (done.returncode, done.stdout) == (1, "")
    said = f"tfm: no controller answers at {place.socket}, and none can be started: "
    assert done.stderr.startswith(said)
    assert f"{place.log.parents[1]} is not a folder" in done.stderr
    assert done.stderr.count("\n") == 1


def test_its_warnings_are_passed_on(place, monkeypatch, tmp_path):
    claims = tmp_path / "no-folder"
    claims.touch()
    monkeypatch.setenv("TF_MALLEABLE_CLAIMS", str(claims))
    done = tfm("submit", "--", "true")
    assert (done.returncode, done.stdout) == (0, "1\n")
    warning, started = done.stderr.splitlines()
    assert warning.startswith("tfm: other controllers cannot see that CPUs ")
    assert started.startswith(STARTED)


def test_a_controller_that_already_answers_is_enough(place):
    assert tfm("controller", "--detach").returncode == 0
    pid = place.pid()
    done = tfm("controller", "--detach")
    said = f"tfm: a controller already answers at {place.socket}; tfm status shows it\n"
    assert (done.returncode, done.stderr) == (0, said)
    assert place.pid() == pid


@pytest.mark.slow
def test_it_ends_when_there_have_been_no_jobs_for_long(place):
    assert tfm("controller", "--detach", "--idle-end", IDLE).returncode == 0
    assert f"{place.info()['idle_end']:.0f}s" == IDLE
    assert tfm("submit", "--", "sleep", LONGER).returncode == 0
    wait_for(lambda: not place.socket.exists())
    wait_for(lambda: place.pid() is None)
    (ended,) = (place.log.parent / "output").glob("*.exit")
    assert ended.read_text() == "0 job 1\n"
    assert ended.stat().st_mtime <= place.socket.parent.stat().st_mtime
    assert "no jobs and requests for long" in place.log.read_text()
    assert stat.S_IMODE(place.log.stat().st_mode) == 0o600
    # The next one has the history.
    done = tfm("submit", "--", "true")
    assert (done.returncode, done.stdout) == (0, "2\n")
    assert done.stderr.startswith(STARTED)


@pytest.mark.slow
def test_it_does_not_end_while_somebody_looks_on(place):
    assert tfm("controller", "--detach", "--idle-end", IDLE).returncode == 0
    client = Client(place.socket)
    client.request("GET", "/v1/events")
    answer = client.getresponse()
    assert answer.readline()
    time.sleep(float(LONGER))
    assert place.socket.exists()
    answer.close()
    client.close()
    wait_for(lambda: not place.socket.exists())
    assert "no jobs and requests for long" in place.log.read_text()
