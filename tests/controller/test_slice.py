# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm controller --slice: login users get some CPUs, and jobs the rest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import cgroups, controllers
from tests.support.cgroup_probe import skip_without
from tests.support.commands import tfm
from tests.support.controllers import wait_for
from tests.support.users import said_as
from tf_malleable.linux.cgroups.slice_limit import login_users_limit

CPUS = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can limit others"),
    pytest.mark.skipif("," not in CPUS, reason="needs two CPUs"),
]


@pytest.fixture
def logins(request):
    """The cgroup of login users, as systemd would have it, below one of our own."""
    try:
        parent = cgroups.make(f"tfm-slice-{os.getpid()}")
    except OSError:
        skip_without("cpu")
    try:
        # As with systemd, v1 has it in the hierarchy of cpu only.
        if parent.cpu != parent.cpuset:
            (parent.cpu / "user.slice").mkdir()
            yield parent.cpu / "user.slice"
        else:
            yield parent.child("user.slice").cpu
    finally:
        for path in parent.cpu.rglob("cgroup.procs"):
            for pid in path.read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        for name in ("tf_malleable.slice", "user.slice"):
            folder = parent.cpu / name
            wait_for(lambda folder=folder: not folder.exists() or removed(folder))
        parent.remove()


def removed(folder: Path) -> bool:
    for inner in [*(path for path in folder.iterdir() if path.is_dir()), folder]:
        try:
            inner.rmdir()
        except OSError:
            return False
    return True


def root_of(logins: Path) -> str:
    """Return the path of the cgroup around it, below the mount point."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split()[4]
        if str(logins).startswith(f"{point}/") and " - cgroup" in line:
            return str(logins.parent.relative_to(point))
    raise AssertionError(logins)


def limits(logins: Path) -> dict[str, str]:
    names = ("cpuset.cpus", "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
    return {name: (logins / name).read_text() for name in names if (logins / name).exists()}


def options(logins: Path) -> tuple[str, ...]:
    return ("--cpus", CPUS, "--slice", "others=1", "--slice-root", root_of(logins))


def is_limited(logins: Path) -> bool:
    """Whether the kernel lets login users have one CPU, by whatever file."""
    found = limits(logins)
    quota = found.get("cpu.cfs_quota_us", "").strip() or found.get("cpu.max", "").partition(" ")[0]
    return quota == "100000" or found.get("cpuset.cpus", "").strip() == CPUS.split(",")[1]


def test_login_users_are_limited_and_the_limit_is_lifted_at_the_end(tmp_path, logins):
    before = limits(logins)
    with controllers.controller(tmp_path, *options(logins)) as running:
        assert is_limited(logins)
        assert [cpu["id"] for cpu in running.get("/v1")["cpus"]] == [int(CPUS.split(",")[0])]
        assert running.stop()[0] == 0
    assert limits(logins) == before
    assert not logins.with_name("tf_malleable.slice").exists()


def test_what_a_killed_controller_has_left_is_lifted_at_the_next_start(tmp_path, logins):
    before = limits(logins)
    with controllers.controller(tmp_path, *options(logins)) as running:
        running.stop(signal.SIGKILL)
    assert is_limited(logins)
    with controllers.controller(tmp_path, "--cpus", CPUS) as running:
        assert limits(logins) == before
        assert len(running.get("/v1")["cpus"]) == 2


def test_a_killed_controller_that_limits_again_still_knows_what_was_before(tmp_path, logins):
    before = limits(logins)
    with controllers.controller(tmp_path, *options(logins)) as running:
        running.stop(signal.SIGKILL)
    with controllers.controller(tmp_path, *options(logins)) as running:
        assert is_limited(logins)
        running.stop()
    assert limits(logins) == before


def test_the_jobs_of_login_users_are_not_limited(tmp_path, logins, monkeypatch):
    with controllers.controller(tmp_path, *options(logins)) as running:
        monkeypatch.setenv("TF_MALLEABLE_SOCKET", str(running.socket))
        shell = subprocess.Popen(
            ["sh", "-c", "read _; sleep 600 & exec tfm run -- sleep 600"],
            stdin=subprocess.PIPE,
            text=True,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        )
        try:
            (logins / "cgroup.procs").write_text(str(shell.pid))
            assert shell.stdin is not None
            shell.stdin.write("go\n")
            shell.stdin.close()
            (job,) = wait_for(lambda: running.get("/v1/jobs")["jobs"])
            wait_for(lambda: running.get("/v1/jobs")["jobs"][0]["state"] == "running")
            members = {int(pid) for pid in (logins / "cgroup.procs").read_text().split()}
            assert job["pid"] not in members
            exempt = logins.with_name("tf_malleable.slice")
            inside = [path.read_text() for path in exempt.rglob("cgroup.procs")]
            assert str(job["pid"]) in " ".join(inside).split()
        finally:
            shell.kill()
            shell.wait()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("others=2", "--slice others=2 leaves no CPU for jobs: there are 2"),
        ("others=0", "--slice must be others=N"),
        ("user=1", "--slice must be others=N"),
    ],
)
def test_a_slice_that_cannot_be_is_refused(tmp_path, logins, text, sentence):
    before = limits(logins)
    places = ("--socket", str(tmp_path / "s"), "--state", str(tmp_path / "state.db"))
    said = tfm("controller", *places, *options(logins)[:2], "--slice", text)
    assert said.returncode == 2
    assert sentence in said.stderr
    assert limits(logins) == before


def test_without_such_a_cgroup_it_is_said_what_is_missing(tmp_path):
    places = ("--socket", str(tmp_path / "s"), "--state", str(tmp_path / "state.db"))
    asked = ("--cpus", CPUS, "--slice", "others=1", "--slice-root", "there-is-none")
    said = tfm("controller", *places, *asked)
    assert said.returncode == 1
    assert "there is no cgroup user.slice" in said.stderr
    assert "Traceback" not in said.stderr


def test_a_user_who_is_not_root_is_refused():
    said = said_as(65534, lambda: login_users_limit(frozenset({0})))
    assert "only root can limit the processes of all login users" in said
