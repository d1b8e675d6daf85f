# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The controller as a process: how it starts, what it survives, how it ends."""

from __future__ import annotations

import configparser
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.controllers import TFM, Client, ask, controller, job, raw, wait_for
from tests.support.deadline import DEADLINE
from tests.support.records import WAITING
from tf_malleable.controller.state.store import Store
from tf_malleable.linux.processes import procfs
from tf_malleable.policies import registry

ROOT = Path(__file__).parents[2]
CPUS = sorted(os.sched_getaffinity(0))

FROM_NOBODY = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except PermissionError:
    print("refused")
"""


def tfm_controller(directory, *options, **environment):
    """Run a controller that is expected to refuse to start."""
    return subprocess.run(
        [TFM, "controller", "--socket", directory / "run" / "controller.sock", *options],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        env={**os.environ, **environment},
    )


def is_over(process: subprocess.Popen[str]) -> bool:
    return process.poll() is not None


@contextmanager
def waiting_jobs(state: Path, count: int) -> Iterator[None]:
    """Have a state file with so many jobs in the queue, each a process that sleeps."""
    processes = [subprocess.Popen(["sleep", "600"]) for _ in range(count)]
    try:
        store = Store(state)
        for process in processes:
            identity = procfs.identify(process.pid)
            store.save(replace(WAITING, id=store.next_id(), process=identity))
        store.close()
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def open_files(soft: int, hard: int) -> Callable[[], None]:
    """Return what limits the files that a child may have open."""
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_one_line_says_that_it_is_ready(tmp_path):
    with controller(tmp_path, "--cpus", str(CPUS[0]), "--policy", "equal") as one:
        assert one.ready == (
            f"tfm controller: 1 CPU ({CPUS[0]}), policy equal, listening at {one.socket}\n"
        )
        assert [cpu["id"] for cpu in one.get("/v1")["cpus"]] == CPUS[:1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_cleanly_and_quietly(tmp_path, number):
    with controller(tmp_path) as one:
        raw(one.socket, b"garbage\r\n\r\n")
        assert one.ask("GET", "/v1/nothing")[0] == 404
        assert one.stop(number) == (0, "")
        assert [path.name for path in one.socket.parent.iterdir()] == ["controller.sock.lock"]


def test_a_host_without_a_container_engine_is_no_news(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "DOCKER_HOST"}
    with controller(tmp_path, env=environment) as one:
        # The second attempt to reach an engine is after half a second.
        time.sleep(1.2)
        assert one.stop() == (0, "")


def test_an_engine_that_the_environment_names_must_answer(tmp_path):
    host = f"unix://{tmp_path}/engine.sock"
    with controller(tmp_path, env={**os.environ, "DOCKER_HOST": host}) as one:
        line = one.process.stderr.readline()
        assert one.stop()[0] == 0
    assert line.startswith(f"tfm controller: no container engine answers at {host}: ")


def test_the_clean_end_lets_everybody_go(tmp_path):
    with controller(tmp_path) as one, job(one.socket) as paused, job(one.socket) as watched:
        number = paused.submit()
        assert one.ask("POST", f"/v1/jobs/{number}/pause")[0] == 200
        wait_for(lambda: paused.letter() == "T")
        stream = Client(one.socket)
        stream.request("GET", f"/v1/jobs/{watched.submit()}/grants")
        answer = stream.getresponse()
        assert answer.readline()
        idle = Client(one.socket)
        idle.connect()
        assert one.stop() == (0, "")
        assert paused.letter() != "T"
        while answer.readline():
            pass
        assert idle.sock.recv(1) == b""
        stream.close()
        idle.close()
        assert not is_over(paused.process)
        assert not is_over(watched.process)


def test_socket_and_directory_are_for_the_owner_alone():
    with TemporaryDirectory() as name, controller(Path(name)) as one:
        assert stat.S_IMODE(one.socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(one.socket.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(one.state.stat().st_mode) & 0o077 == 0
        if os.geteuid() == 0:
            Path(name).chmod(0o755)
            command = [sys.executable, "-I", "-c", FROM_NOBODY, str(one.socket)]
            assert subprocess.run(command, capture_output=True, check=True).stdout == b"refused\n"


def test_a_second_one_refuses_and_leaves_the_first_alone(tmp_path):
    with controller(tmp_path) as one, job(one.socket) as working:
        number = working.submit()
        second = tfm_controller(tmp_path, "--state", tmp_path / "other.db")
        assert second.returncode == 1
        assert second.stderr == (
            f"tfm controller: a controller (pid {one.pid}) already listens at {one.socket}\n"
        )
        assert not (tmp_path / "other.db").exists()
        assert one.get(f"/v1/jobs/{number}")["state"] == "running"


def test_two_on_one_state_file(tmp_path):
    (tmp_path / "other").mkdir()
    with controller(tmp_path) as one:
        second = tfm_controller(tmp_path / "other", "--state", one.state)
        assert second.returncode == 1
        assert str(one.state) in second.stderr
        assert len(second.stderr.splitlines()) == 1
        assert not (tmp_path / "other" / "run" / "controller.sock").exists()


def test_after_a_kill_the_next_one_knows_what_the_first_knew(tmp_path):
    with controller(tmp_path, "--policy", "equal") as first:
        with job(first.socket) as ended:
            ended.submit(name="ended")
        wait_for(lambda: first.get("/v1/jobs")["jobs"] == [])
        with job(first.socket) as one, job(first.socket) as two:
            names = {one.submit(name="one", max=1): one, two.submit(name="two", max=1): two}
            assert first.ask("POST", f"/v1/jobs/{min(names)}/pause")[0] == 200
            before = {job["id"]: job for job in first.get("/v1/jobs")["jobs"]}
            first.process.kill()
            first.process.wait(DEADLINE)
            assert first.socket.exists()
            assert not is_over(one.process)
            assert not is_over(two.process)
            with controller(tmp_path) as second:
                assert "policy equal" in second.ready
                after = {job["id"]: job for job in second.get("/v1/jobs")["jobs"]}
                assert before.keys() == after.keys() == names.keys()
                for number, known in after.items():
                    for field in ("name", "pid", "submitted", "started", "state", "held", "user"):
                        assert known[field] == before[number][field]
                    assert known["granted"] == before[number]["granted"]
                granted = [cpu for known in after.values() for cpu in known["granted"]]
                assert len(set(granted)) == len(granted)
                assert [job["name"] for job in second.get("/v1/history")["jobs"]] == ["ended"]
                # A process of the job finds it again.
                assert two.ask("POST", "/v1/jobs", {"name": "two"})[0] == 200
                assert second.ask("POST", f"/v1/jobs/{min(names)}/resume")[0] == 200
                wait_for(lambda: one.letter() != "T")


def test_it_takes_over_more_jobs_than_files_may_be_open_by_default(tmp_path):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with (
        waiting_jobs(tmp_path / "controller.db", 80),
        controller(tmp_path, preexec_fn=open_files(64, most)) as one,
    ):
        assert len(one.get("/v1/jobs")["jobs"]) == 80


def test_more_jobs_than_files_may_be_open_are_kept(tmp_path):
    state = tmp_path / "controller.db"
    with waiting_jobs(state, 80):
        result = subprocess.run(
            [TFM, "controller", "--socket", tmp_path / "run" / "controller.sock", "--state", state],
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
            preexec_fn=open_files(64, 64),
        )
    assert result.returncode == 1
    assert result.stderr == (
        f"tfm controller: cannot take over the jobs in {state}: Too many open files\n"
    )
    store = Store(state)
    assert len(store.load()) == 80
    store.close()


def test_metrics_over_tcp_and_nothing_else_there(tmp_path):
    with controller(tmp_path, "--metrics", "0") as one:
        url = one.ready.strip().rpartition(" ")[2]
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url, timeout=DEADLINE) as answer:
            assert f"tfm_cpus {float(len(CPUS))}" in answer.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url.replace("/metrics", "/v1"), timeout=DEADLINE)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example"])
def test_metrics_are_not_for_other_hosts(tmp_path, host):
    with controller(tmp_path, "--metrics", "0") as one:
        url = one.ready.strip().rpartition(" ")[2]
        request = urllib.request.Request(url, headers={"Host": host})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(request, timeout=DEADLINE)
        request = urllib.request.Request(url, headers={"Host": "localhost"})
        urllib.request.urlopen(request, timeout=DEADLINE).close()


def test_a_state_file_that_is_a_symbolic_link_is_refused(tmp_path):
    target = tmp_path / "precious"
    (tmp_path / "link.db").symlink_to(target)
    result = tfm_controller(tmp_path, "--state", tmp_path / "link.db")
    assert result.returncode == 1
    assert result.stderr.endswith("link.db: it is a symbolic link\n")
    assert not target.exists()


def test_a_malformed_state_file_is_refused_with_what_to_do(tmp_path):
    state = tmp_path / "controller.db"
    store = Store(state)
    for number in range(1000):
        store.save(replace(WAITING, id=str(number)))
    store.close()
    os.truncate(state, state.stat().st_size // 2)
    result = tfm_controller(tmp_path, "--state", state)
    assert (result.returncode, len(result.stderr.splitlines())) == (1, 1)
    assert f"to begin without its jobs and history, move {state}* to another folder" in (
        result.stderr
    )
    (tmp_path / "elsewhere").mkdir()
    for each in tmp_path.glob("controller.db*"):
        each.rename(tmp_path / "elsewhere" / each.name)
    with controller(tmp_path) as one:
        assert one.get("/v1/jobs")["jobs"] == []


def test_it_starts_and_ends_with_stderr_on_a_full_disk(tmp_path):
    path = tmp_path / "run" / "controller.sock"
    with open("/dev/full", "w") as full:
        process = subprocess.Popen(
            [TFM, "controller", "-vv", "--socket", path, "--state", tmp_path / "controller.db"],
            stderr=full,
        )
    try:

        def answers() -> bool:
            with suppress(OSError):
                return ask(path, "GET", "/v1")[0] == 200
            return False

        wait_for(answers)
    finally:
        process.terminate()
    assert process.wait(DEADLINE) == 0


def test_the_watchdog_is_fed_while_the_loop_runs(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.settimeout(DEADLINE)
        told.bind(str(tmp_path / "notify"))
        asked = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        with controller(tmp_path, env={**os.environ, **asked}) as one:
            assert [told.recv(100) for _ in range(3)] == [b"READY=1", *[b"WATCHDOG=1"] * 2]
            assert one.stop()[0] == 0


def test_a_port_that_is_taken(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = tfm_controller(tmp_path, "--metrics", port, "--state", tmp_path / "state.db")
    assert result.returncode == 1
    assert result.stderr == (
        f"tfm controller: cannot listen on port {port} of 127.0.0.1: Address already in use;"
        " choose another with --metrics\n"
    )
    assert not (tmp_path / "state.db").exists()
    assert not (tmp_path / "run" / "controller.sock").exists()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--policy", "no-such-policy"], 2, "no-such-policy"),
        (["--cpus", "0-"], 2, "CPUs must be a list such as 0-3,7, not '0-'"),
        (["--cpus", "60000"], 2, "CPUs must be among"),
        (["--cpus", ""], 2, "CPUs must be among"),
        (["--metrics", "65536"], 2, "--metrics must be a port from 0 to 65535, not 65536"),
        (["--metrics", "-1"], 2, "--metrics must be a port from 0 to 65535, not -1"),
        (["--metrics", "x"], 2, "'x' is not a valid integer"),
        (
            ["--socket", "/proc/x/controller.sock"],
            1,
            "cannot use the socket's directory /proc/x: No such file or directory",
        ),
        (["--socket", "/tmp/controller.sock"], 1, "the socket's directory /tmp is "),
        (["--socket", "/run/" + "x" * 200], 1, "may have at most 107 bytes"),
        (["--state", "/proc/x/controller.db"], 1, "/proc/x"),
        (["--state", __file__], 1, __file__),
    ],
)
def test_what_cannot_be_is_said_in_one_line(tmp_path, options, code, message):
    result = tfm_controller(tmp_path, *options)
    assert (result.returncode, result.stdout) == (code, "")
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("tfm")
    assert message in result.stderr
    assert not (tmp_path / "run" / "controller.sock").exists()


def test_a_policy_that_is_there_no_more(tmp_path):
    store = Store(tmp_path / "controller.db")
    store.set_setting("policy", "removed")
    store.close()
    path = tmp_path / "run" / "controller.sock"
    process = subprocess.Popen(
        [TFM, "controller", "--socket", path, "--state", store.path],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        warning, ready = process.stderr.readline(), process.stderr.readline()
        assert warning.startswith("tfm controller: the last policy, removed, cannot be used, ")
        assert f"policy {registry.DEFAULT}, listening at {path}" in ready
        assert ask(path, "GET", "/v1")[1]["problem"] in warning
    finally:
        process.terminate()
        process.communicate(timeout=DEADLINE)
    with controller(tmp_path, "--policy", "equal") as one:
        assert one.get("/v1")["policy"] == "equal"


def test_the_usual_places(tmp_path):
    environment = {
        name: value for name, value in os.environ.items() if name != "TF_MALLEABLE_SOCKET"
    }
    environment |= {"XDG_RUNTIME_DIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    process = subprocess.Popen(
        [TFM, "controller"], stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        path = tmp_path / "tf_malleable" / "controller.sock"
        assert process.stderr.readline().endswith(f"listening at {path}\n")
        assert ask(path, "GET", "/v1")[0] == 200
        assert (tmp_path / "state" / "tf_malleable" / "controller.db").exists()
    finally:
        process.terminate()
        process.communicate(timeout=DEADLINE)


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told(tmp_path, abstract):
    name = f"tfm-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.settimeout(DEADLINE)
        told.bind(f"\0{name}" if abstract else name)
        address = f"@{name}" if abstract else name
        with controller(tmp_path, env={**os.environ, "NOTIFY_SOCKET": address}) as one:
            assert told.recv(100) == b"READY=1"
            assert one.stop() == (0, "")
            assert told.recv(100) == b"STOPPING=1"


def test_actions_are_logged_if_asked_for(tmp_path):
    with controller(tmp_path, "-v", "--cpus", str(CPUS[0])) as one, job(one.socket) as working:
        number = working.submit()
        assert one.ask("POST", f"/v1/jobs/{number}/pause")[0] == 200
        assert one.ask("PUT", "/v1/policy", {"policy": "equal"})[0] == 200
        assert one.ask("POST", f"/v1/jobs/{number}/cancel")[0] == 200
        wait_for(lambda: one.get("/v1/jobs")["jobs"] == [])
        code, text = one.stop()
    assert code == 0
    said = text.splitlines()
    assert f"tfm controller: job {number} (test): granted CPUs {CPUS[0]}" in said
    assert f"tfm controller: job {number} (test): paused" in said
    assert "tfm controller: the policy is now equal" in said
    ended = f"tfm controller: job {number} (test): cancelled"  # A new kernel tells the exit code.
    assert any(line in (ended, f"{ended}, exit code 143") for line in said)
    assert "POST" not in text


def test_requests_are_logged_if_asked_for(tmp_path):
    with controller(tmp_path, "-vv") as one:
        one.get("/v1/jobs")
        code, text = one.stop()
        assert code == 0
        assert "GET /v1/jobs HTTP/1.1" in text


@pytest.mark.parametrize("file", ["tf_malleable.service", "user/tf_malleable.service"])
def test_the_unit_starts_a_command_there_is(tmp_path, file):
    unit = configparser.ConfigParser(strict=False)
    unit.optionxform = str
    unit.read(ROOT / "deploy" / file)
    command = unit["Service"]["ExecStart"].split()
    assert command[:3] == ["/usr/bin/env", "tfm", "controller"]
    assert unit["Service"]["Type"] == "notify"
    path = f"{Path(TFM).parent}:{os.environ['PATH']}"
    help_text = subprocess.run(
        [*command, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": path},
    ).stdout
    for option in ("--policy", "--cpus", "--socket", "--group", "--state", "--quotas", "--metrics"):
        assert option in help_text
