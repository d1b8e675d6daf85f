# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A controller that a group shares: what its members may see and change, and who is nobody."""

from __future__ import annotations

import grp
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.controllers import TFM, controller, job, wait_for
from tests.support.deadline import DEADLINE
from tests.support.pid_namespaces import needs_namespaces
from tf_malleable.api.transport.connection import Connection

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")

# Sends requests as another user, one JSON list of method, path and body a line.
SPEAKER = """
import http.client, json, os, socket, sys
group, uid = int(sys.argv[2]), int(sys.argv[3])
os.setgroups([]); os.setgid(group); os.setuid(uid)
for line in sys.stdin:
    method, path, body = json.loads(line)
    client = http.client.HTTPConnection("localhost")
    client.sock = socket.socket(socket.AF_UNIX)
    try:
        client.sock.connect(sys.argv[1])
    except PermissionError:
        print(json.dumps([0, "refused"]), flush=True)
        continue
    client.request(method, path, None if body is None else json.dumps(body))
    answer = client.getresponse()
    print(json.dumps([answer.status, json.loads(answer.read() or b"null")]), flush=True)
"""

# Connects, forks and exits; once told to, the child goes on with the connection.
HANDED_ON = """
import os, socket, sys
request = b"GET %s HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n"
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
def answer(path):
    connection.sendall(request % path)
    received = b""
    while not received.endswith(b"}"):
        received += connection.recv(65536)
    return received.decode()
assert answer(b"/v1").startswith("HTTP/1.1 200")
if os.fork():
    os._exit(0)
sys.stdin.readline()
print(answer(b"/v1/jobs"))
"""

IN_NAMESPACE = """
import http.client, json, socket, sys
for method, path, body in json.loads(sys.argv[2]):
    client = http.client.HTTPConnection("localhost")
    client.sock = socket.socket(socket.AF_UNIX)
    client.sock.connect(sys.argv[1])
    client.request(method, path, None if body is None else json.dumps(body))
    print(client.getresponse().status)
"""


class Speaker:
    """A user of the host who talks to a controller."""

    def __init__(self, path: Path, group: int, uid: int = NOBODY) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", SPEAKER, str(path), str(group), str(uid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, method, path, body=None):
        self.process.stdin.write(json.dumps([method, path, body]) + "\n")
        self.process.stdin.flush()
        status, answer = json.loads(self.process.stdout.readline())
        return status, answer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate(timeout=DEADLINE)


@pytest.fixture
def group():
    """Return a group that is not root's."""
    return next(each for each in grp.getgrall() if each.gr_gid not in (0, NOBODY))


@as_root
def test_members_of_the_group_may_connect_and_nobody_else(directory, group):
    with controller(directory, "--group", group.gr_name) as one:
        about = one.socket.stat(), one.socket.parent.stat()
        assert [stat.S_IMODE(each.st_mode) for each in about] == [0o660, 0o750]
        assert [each.st_gid for each in about] == [group.gr_gid] * 2
        assert stat.S_IMODE(one.state.stat().st_mode) & 0o077 == 0
        with Speaker(one.socket, group.gr_gid) as member, Speaker(one.socket, NOBODY) as stranger:
            assert member.ask("GET", "/v1")[0] == 200
            assert stranger.ask("GET", "/v1") == (0, "refused")
    # The next one without the option is private again, and says what to do first.
    assert stat.S_IMODE(one.socket.parent.stat().st_mode) == 0o750


@as_root
def test_a_member_sees_and_changes_his_own_jobs_only(directory, group):
    with (
        controller(directory, "--group", group.gr_name, "--policy", "equal") as one,
        job(one.socket) as root,
        Speaker(one.socket, group.gr_gid) as member,
        Speaker(one.socket, group.gr_gid, 4321) as other,
    ):
        secret = ["train", "--token", "secret"]
        theirs = root.submit(name="roots", command=secret)
        status, own = member.ask("POST", "/v1/jobs", {"name": "mine", "command": secret})
        assert status == 201
        seen = {each["id"]: each for each in member.ask("GET", "/v1/jobs")[1]["jobs"]}
        assert (seen[theirs]["command"], seen[theirs]["name"]) == ([], "roots")
        assert seen[own["id"]]["command"] == secret
        assert member.ask("GET", f"/v1/jobs/{theirs}")[1]["command"] == []
        assert [each["command"] for each in one.get("/v1/jobs")["jobs"]] == [secret, secret]
        for action in ("pause", "resume", "cancel"):
            assert member.ask("POST", f"/v1/jobs/{theirs}/{action}")[0] == 403
            assert other.ask("POST", f"/v1/jobs/{own['id']}/{action}")[0] == 403
        assert member.ask("PUT", f"/v1/jobs/{theirs}/cores", {"cores": 1})[0] == 403
        assert member.ask("PUT", "/v1/policy", {"policy": "efficient"})[0] == 403
        assert member.ask("POST", f"/v1/jobs/{theirs}/progress", {"steps_done": 1})[0] == 403
        assert member.ask("PUT", f"/v1/jobs/{own['id']}/cores", {"cores": 1})[0] == 200
        assert one.ask("POST", f"/v1/jobs/{own['id']}/cancel")[0] == 200
        wait_for(lambda: len(one.get("/v1/history")["jobs"]) == 1)
        assert one.get("/v1/history")["jobs"][0]["command"] == secret
        assert other.ask("GET", "/v1/history")[1]["jobs"][0]["command"] == []


def test_whoever_goes_on_with_a_dead_process_s_connection_is_refused(tmp_path):
    with controller(tmp_path) as one:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", HANDED_ON, str(one.socket)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        # With this the pid leads nowhere.
        assert process.wait(DEADLINE) == 0
        answer, _ = process.communicate("go on\n", timeout=DEADLINE)
        assert answer.startswith("HTTP/1.1 403 ")
        assert "the process that connected has ended" in answer


def test_a_connection_made_by_a_process_that_has_ended_is_refused(tmp_path):
    with controller(tmp_path) as one:
        # The loop is held while the process connects, forks and exits.
        os.kill(one.pid, signal.SIGSTOP)
        script = (
            "import os, socket, sys; c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1])\n"
            "if os.fork(): os._exit(0)\n"
            "sys.stdin.readline()\n"
            "print(c.recv(65536).decode())"
        )
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", script, str(one.socket)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.wait(DEADLINE) == 0
        finally:
            os.kill(one.pid, signal.SIGCONT)
        answer, _ = process.communicate("go on\n", timeout=DEADLINE)
        assert answer.startswith("HTTP/1.1 403 ")


@as_root
@needs_namespaces
def test_root_in_a_pid_namespace_is_not_the_host_s_root(tmp_path):
    with controller(tmp_path, "--policy", "equal") as one, job(one.socket) as root:
        number = root.submit(command=["secret"])
        requests = [
            ["PUT", "/v1/policy", {"policy": "efficient"}],
            ["POST", f"/v1/jobs/{number}/cancel", None],
            ["GET", "/v1/jobs", None],
        ]
        command = ["unshare", "--pid", "--fork", sys.executable, "-I", "-c", IN_NAMESPACE]
        done = subprocess.run(
            [*command, str(one.socket), json.dumps(requests)],
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )
        assert done.stdout.split() == ["403", "403", "200"], done.stderr
        assert one.get("/v1")["policy"] == "equal"


@pytest.mark.parametrize("name", ["no-such-group", ""])
def test_a_group_that_is_not_there(tmp_path, name):
    done = subprocess.run(
        [TFM, "controller", "--socket", tmp_path / "run" / "controller.sock", "--group", name],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert done.returncode == 2
    assert done.stderr == f"tfm: --group must be a group of this host, not {name!r}\n"
    assert not (tmp_path / "run").exists()


@as_root
def test_clients_do_not_talk_to_another_user_s_server(directory):
    path = directory / "controller.sock"
    squatter = socket.socket(socket.AF_UNIX)
    with squatter:
        squatter.bind(str(path))
        path.chmod(0o777)
        # listen() is what the kernel remembers.
        if (child := os.fork()) == 0:
            os.setuid(4321)
            squatter.listen()
            os.kill(os.getpid(), signal.SIGSTOP)
            os._exit(0)
        os.waitpid(child, os.WUNTRACED)
        try:
            if (victim := os.fork()) == 0:
                code = 1
                try:
                    os.setuid(NOBODY)
                    Connection(path).request("GET", "/v1")
                except OSError as error:
                    code = 0 if "neither root nor you" in str(error) else 2
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1]) == 0
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


@as_root
def test_quotas_are_per_user(directory, group):
    quotas = directory / "quotas.conf"
    quotas.write_text("[*]\nmax-jobs = 1\n[4321]\nmax-jobs = 2\n")
    with (
        controller(directory, "--group", group.gr_name, "--quotas", str(quotas)) as one,
        Speaker(one.socket, group.gr_gid) as first,
        Speaker(one.socket, group.gr_gid) as second,
        Speaker(one.socket, group.gr_gid, 4321) as third,
        Speaker(one.socket, group.gr_gid, 4321) as fourth,
    ):
        assert first.ask("POST", "/v1/jobs", {"name": "job"})[0] == 201
        status, answer = second.ask("POST", "/v1/jobs", {"name": "job"})
        assert status == 409
        assert "may have at most 1 job at once: wait until one has ended" in answer["error"]
        for speaker in (third, fourth):
            assert speaker.ask("POST", "/v1/jobs", {"name": "job"})[0] == 201
        assert len(one.get("/v1/jobs")["jobs"]) == 3


def test_wrong_quotas_are_refused_before_anything_is_touched(tmp_path):
    quotas = tmp_path / "quotas.conf"
    quotas.write_text("[*]\nmax-jobs = many\n")
    done = subprocess.run(
        [TFM, "controller", "--socket", tmp_path / "run" / "c.sock", "--quotas", quotas],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert done.returncode == 2
    assert f"{quotas}: max-jobs of [*] must be an integer from 1 to" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()
