# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm service writes the unit and has systemd run it; systemctl here only notes the requests."""

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.accounts import has_ended
from tests.support.commands import tfm
from tests.support.controllers import TFM, ask, wait_for
from tests.support.deadline import DEADLINE

NOT_BOOTED = "System has not been booted with systemd as init system (PID 1). Can't operate."


class Systemctl:
    """A systemctl on the PATH."""

    def __init__(self, folder: Path) -> None:
        self._program, self._log = folder / "bin" / "systemctl", folder / "asked"
        self._program.parent.mkdir()
        self.answers("case $2 in is-enabled) echo enabled ;; is-active) echo active ;; esac")

    def answers(self, script: str) -> None:
        self._program.write_text(f'#!/bin/sh\necho "$*" >> {self._log}\n{script}\n')
        self._program.chmod(0o755)

    def asked(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []


@pytest.fixture
def systemctl(tmp_path, monkeypatch):
    found = Systemctl(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.delenv("TF_MALLEABLE_SOCKET")
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return found


@pytest.fixture
def unit(tmp_path):
    return tmp_path / "config" / "systemd" / "user" / "tf_malleable.service"


def exec_start(text: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith("ExecStart="))
    return shlex.split(line.removeprefix("ExecStart="))


def test_it_is_installed_shown_and_removed(systemctl, unit):
    done = tfm("service", "install", "--user", "--", "--policy", "equal", "--max-running", "3")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"{unit} is enabled and runs; tfm status shows it\n"
        "to keep it running while you are not logged in: loginctl enable-linger\n"
    )
    text = unit.read_text()
    assert exec_start(text) == [TFM, "controller", "--policy", "equal", "--max-running", "3"]
    assert "WantedBy=default.target" in text
    asked = ["show --property=Version", "daemon-reload", "enable UNIT", "restart UNIT"]
    named = [f"--user {each}".replace("UNIT", unit.name) for each in asked]
    assert systemctl.asked() == named
    status = tfm("service", "status", "--user")
    assert status.stdout == f"{unit}: enabled, active; tfm status shows what answers\n"
    assert json.loads(tfm("service", "status", "--user", "--json").stdout) == {
        "unit": str(unit), "installed": True, "enabled": "enabled", "active": "active",
    }  # fmt: skip
    # Again, with other options.
    assert tfm("service", "install", "--user").returncode == 0
    assert exec_start(unit.read_text()) == [TFM, "controller"]
    done = tfm("service", "uninstall", "--user")
    assert (done.returncode, done.stdout) == (0, f"{unit} is removed\n")
    assert systemctl.asked()[-2:] == [
        f"--user disable --now {unit.name}", "--user daemon-reload"
    ]  # fmt: skip
    assert not unit.exists()


def test_without_a_unit_there_is_nothing_to_show_or_remove(systemctl, unit):
    done = tfm("service", "status", "--user")
    said = f"{unit} does not exist: tfm service install writes it\n"
    assert (done.returncode, done.stdout) == (0, said)
    done = tfm("service", "uninstall", "--user")
    said = f"tfm: there is no service: {unit} does not exist\n"
    assert (done.returncode, done.stderr) == (1, said)
    assert systemctl.asked() == []


@pytest.mark.parametrize("whose", ["--system", "--user"])
def test_where_no_systemd_runs_it_says_what_to_do(systemctl, unit, whose):
    systemctl.answers(f'echo "{NOT_BOOTED}" >&2; exit 1')
    done = tfm("service", "install", whose)
    assert (done.returncode, done.stdout) == (1, "")
    which = " of this user" if whose == "--user" else ""
    assert done.stderr == (
        f"tfm: no systemd{which} answers here ({NOT_BOOTED}): tfm service install --print prints"
        " the unit, and tfm controller --detach runs a controller without it\n"
    )
    assert not unit.exists()
    done = tfm("service", "install", whose, "--print")
    assert (done.returncode, done.stderr) == (0, "")
    assert exec_start(done.stdout) == [TFM, "controller"]
    assert ("ProtectSystem=strict" in done.stdout) == (whose == "--system")


def test_without_systemctl_it_says_so(unit, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = tfm("service", "install", "--user")
    assert done.returncode == 1
    assert done.stderr.startswith(
        "tfm: no systemd of this user answers here (systemctl is missing): tfm service install"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--polcy", "equal"], "tfm: No such option"),
        (["--max-running", "many"], "tfm: Invalid value for '--max-running'"),
        (["--detach"], "tfm: a service runs until it is stopped: leave --detach and"),
        (["--idle-end", "1h"], "tfm: a service runs until it is stopped: leave --detach and"),
        (["--area", "a\nb"], "tfm: a unit cannot contain 'a\\nb': it has unprintable characters"),
    ],
)
def test_options_that_systemd_would_stumble_over_are_refused(systemctl, unit, options, said):
    done = tfm("service", "install", "--user", "--", *options)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1
    assert not unit.exists()


def test_words_are_quoted_as_systemd_reads_them(systemctl):
    options = ["--area", "a b", "--meter", 'rapl:/x%h/$HOME/"q"\\']
    text = tfm("service", "install", "--user", "--print", "--", *options).stdout
    assert '--area "a b" --meter "rapl:/x%%h/$$HOME/\\"q\\"\\\\"\n' in text


def test_somebody_elses_unit_stays(systemctl, unit):
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/opt/tfm controller\n")
    done = tfm("service", "install", "--user")
    assert done.returncode == 1
    assert done.stderr.startswith(f"tfm: {unit} was not written by tfm service install: ")
    assert unit.read_text() == "[Service]\nExecStart=/opt/tfm controller\n"


def test_what_systemd_refuses_is_said(systemctl, unit):
    systemctl.answers('[ "$2" != restart ] || { echo "Job for it failed." >&2; exit 1; }')
    done = tfm("service", "install", "--user")
    assert (done.returncode, done.stdout) == (1, "")
    said = f"tfm: systemctl restart {unit.name} failed: Job for it failed.\n"
    assert done.stderr == said


def test_it_takes_the_place_of_one_in_the_background(systemctl, tmp_path):
    assert tfm("submit", "--", "sleep", "600").returncode == 0
    socket = tmp_path / "tf_malleable" / "controller.sock"
    (job,) = ask(socket, "GET", "/v1/jobs")[1]["jobs"]
    try:
        pid = ask(socket, "GET", "/v1")[1]["pid"]
        assert tfm("service", "install", "--user").returncode == 0
        wait_for(lambda: has_ended(pid))
        assert not socket.exists()
        assert cmdline(job["pid"]) == "sleep 600"
    finally:
        os.kill(job["pid"], 9)


# It says that it is another process than it is.
LIAR = """
import json, os, socket, sys
said = {"version": "0", "protocol": 1, "pid": int(sys.argv[2]), "started": 0.0, "policy": "equal",
        "cpus": [], "problem": None, "log": "/log"}
body = json.dumps(said).encode()
head = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nConnection: close\\r\\n"
os.umask(0o077)
os.makedirs(os.path.dirname(sys.argv[1]))
with socket.socket(socket.AF_UNIX) as server:
    server.bind(sys.argv[1])
    server.listen()
    print("listening", flush=True)
    while True:
        connection, _ = server.accept()
        with connection:
            if connection.recv(65536):
                connection.sendall(head + b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
"""


def test_it_ends_who_listens_not_who_is_said_to(systemctl, tmp_path):
    socket = tmp_path / "tf_malleable" / "controller.sock"
    with subprocess.Popen(["sleep", "600"]) as victim:
        command = [sys.executable, "-c", LIAR, socket, str(victim.pid)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as liar:
            try:
                assert liar.stdout is not None
                assert liar.stdout.readline() == b"listening\n"
                assert tfm("service", "install", "--user").returncode == 0
                assert liar.wait(DEADLINE) == -signal.SIGTERM
                assert victim.poll() is None
            finally:
                victim.kill()
                liar.kill()


def cmdline(pid: int) -> str:
    """Return the command line of a process; empty for a zombie."""
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()


def test_roots_service_runs_nothing_that_others_can_change(systemctl, tmp_path):
    place = tmp_path / "open"
    place.mkdir()
    program = place / "tfm"
    program.write_text(Path(TFM).read_text())
    program.chmod(0o755)
    place.chmod(0o777)
    done = subprocess.run(
        [program, "service", "install", "--system"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "tfm: the machine's service runs as root, and others could change what it runs: other"
        f" users may write to {place} (mode {stat.S_IMODE(place.stat().st_mode):04o}); install"
        " tf_malleable where only root may write, such as /opt\n"
    )
    assert systemctl.asked() == ["--system show --property=Version"]
