# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Jobs in scopes of systemd: where they can be, and that they hold the right processes.

`tools/in_vm.sh --systemd` runs the tests that need the real one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import systemd
from tests.support.deadline import DEADLINE
from tf_malleable.linux.cgroups import cgroup, cpu_cgroup, job_cgroup, systemd_scope
from tf_malleable.linux.cgroups.job_cgroup import JobGroup
from tf_malleable.linux.cgroups.systemd_scope import ScopeError, ScopePlace, Scopes, place
from tf_malleable.linux.processes import procfs
from tf_malleable.model import ProcessId

SESSION = "/user.slice/user-1000.slice/session-3.scope"
OWN = "/user.slice/user-1000.slice/user@1000.service/app.slice"
CONTAINER = "0123456789abcdef" * 4
CHILD = "import os, time; os.fork(); print(flush=True); time.sleep(600)"


# The paths are those that systemd 252 makes.
@pytest.mark.parametrize(
    ("path", "uid", "lingers", "found"),
    [
        (
            SESSION,
            0,
            False,
            ScopePlace("--system", "/user.slice/user-1000.slice", "session-3.scope"),
        ),
        (f"{OWN}/a.scope", 1000, False, ScopePlace("--user", OWN, "a.scope")),
        (
            f"{OWN}/app-b.slice/a.scope",
            1000,
            False,
            ScopePlace("--user", f"{OWN}/app-b.slice", "a.scope"),
        ),
        (SESSION, 1000, True, ScopePlace("--user", OWN)),
    ],
)
def test_a_job_stays_in_its_slice(path, uid, lingers, found):
    assert place(path, uid, lingers=lingers) == found


@pytest.mark.parametrize(
    ("path", "uid", "said"),
    [
        (SESSION, 1000, "login session of a user who does not linger"),
        (SESSION, 1001, "is not the scope of a login session"),
        (f"{OWN}/a.scope", 0, "is not the scope of"),
        (f"{OWN}/a.scope", 1001, "is not the scope of"),
        (f"{OWN}/a.service", 1000, "is not the scope of"),
        (f"{SESSION}/below", 0, "is not the scope of"),
        ("/system.slice/training.service", 0, "is not the scope of"),
        (f"/system.slice/docker-{CONTAINER}.scope", 0, "is not the scope of"),
        ("/machine.slice/machine-a.scope", 0, "is not the scope of"),
        ("/user.slice/user-1000.slice/user@1000.service/init.scope", 1000, "is not the scope of"),
        ("/user.slice/user-1000.slice/run-a.scope", 0, "is not the scope of"),
        ("/user.slice/../system.slice/session-3.scope", 0, "is not the scope of"),
        ("/user.slice/user-1000.slice/a\n.slice/session-3.scope", 0, "is not the scope of"),
        ("/", 0, "is not the scope of"),
    ],
)
def test_other_processes_stay_where_they_are(path, uid, said):
    with pytest.raises(ScopeError, match=said):
        place(path, uid, lingers=False)


class Login:
    """The session of a user, with a shell, in the kernel's hierarchy of v2."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.slice = root / "user.slice" / "user-1000.slice"
        self.home = self.slice / "session-3.scope"
        self.home.mkdir(parents=True)
        self._processes: list[subprocess.Popen[str]] = []
        self.shell = self.program()

    def program(self, code: str = "import time; print(flush=True); time.sleep(600)") -> ProcessId:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        self._processes.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        for pid in procfs.trees([process.pid])[process.pid]:
            (self.home / "cgroup.procs").write_text(str(pid))
        identity = procfs.identify(process.pid)
        assert identity is not None
        return identity

    def pids(self) -> list[int]:
        return JobGroup(self.home, unified=True).pids()

    def end(self, process: ProcessId) -> None:
        ended = next(each for each in self._processes if each.pid == process.pid)
        ended.kill()
        ended.wait()

    def close(self) -> None:
        wait_for(lambda: JobGroup(self.root, unified=True).kill() and not self._populated())
        for each in self._processes:
            each.communicate()
        for folder, _, _ in os.walk(self.root, topdown=False):
            os.rmdir(folder)

    def _populated(self) -> bool:
        return JobGroup(self.root, unified=True).is_populated()


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def login(tmp_path, monkeypatch) -> Iterator[Login]:
    mounts = cgroup.parse_mounts(Path("/proc/self/mountinfo").read_text())
    unified = [mount for mount in mounts if mount.unified and mount.root == "/"]
    if not unified or not os.access(unified[0].point, os.W_OK):
        pytest.skip("no cgroup can be made here")
    root = unified[0].point / f"tfm-test-{os.getpid()}"
    if os.geteuid() != 0:
        pytest.skip("needs root")
    mount = cgroup.Mount("/", root, frozenset(), unified=True)
    real = systemd_scope._path
    monkeypatch.setattr(systemd_scope, "_mount", lambda: mount)
    monkeypatch.setattr(systemd_scope, "_path", lambda pid: real(pid).removeprefix(f"/{root.name}"))
    systemd.install(tmp_path, root)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = Login(root)
    yield found
    found.close()


def test_a_job_has_a_scope_in_its_slice_with_all_its_processes(login):
    job = login.program(CHILD)
    inside = procfs.trees([job.pid])[job.pid]
    assert len(inside) == 2
    group = Scopes().make(job)
    name = f"tfm-job-{job.pid}-{job.start}"
    assert group.folder == login.slice / f"{name}.scope" / name
    assert group.scope == group.folder.parent
    assert group.pids() == sorted(inside)
    assert JobGroup(group.scope, unified=True).pids() == []
    assert job_cgroup.main_of(inside[1]) == (job.pid, job.start)
    assert job_cgroup.found(group.folder, job) is not None


def test_a_user_s_own_systemd_moves_all_processes_of_a_job(login, monkeypatch):
    job = login.program(CHILD)
    inside = procfs.trees([job.pid])[job.pid]
    own = login.root / systemd.USER / "app.slice"
    own.mkdir(parents=True)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ScopeError, match="does not linger"):
        Scopes().make(job)
    monkeypatch.setattr(systemd_scope, "_lingers", lambda: True)
    group = Scopes().make(job)
    assert group.folder.parent.parent == own
    assert group.pids() == sorted(inside)
    assert login.pids() == [login.shell.pid]


@pytest.mark.slow
def test_the_session_lasts_as_long_as_the_job(login):
    """systemd-logind would remove what the user has in /dev/shm."""
    job = login.program()
    Scopes().make(job)
    assert len(login.pids()) == 2
    login.end(login.shell)
    [left] = login.pids()
    assert left != job.pid
    login.end(job)
    wait_for(lambda: login.pids() == [])


@pytest.mark.slow
def test_a_scope_outlasts_its_job_so_that_the_controller_sees_what_it_lacked(login):
    job = login.program()
    group = Scopes().make(job)
    assert group.scope is not None
    [last] = JobGroup(group.scope / "tfm-last", unified=True).pids()
    assert last not in group.pids()
    login.end(job)
    wait_for(lambda: not JobGroup(group.scope, unified=True).is_populated())


def test_a_job_that_cannot_be_moved_leaves_no_scope(login, monkeypatch):
    job = login.program()
    before = login.pids()
    monkeypatch.setattr(JobGroup, "has_freezer", lambda _: False)
    with pytest.raises(ScopeError, match="the kernel does not let it move"):
        Scopes().make(job)
    [scope] = login.slice.glob("tfm-job-*.scope")
    # systemd removes it then.
    assert not JobGroup(scope, unified=True).is_populated()
    assert login.pids() == before


def test_the_limits_of_a_scope_go_on_to_hold(login, monkeypatch, tmp_path):
    job = login.program()
    monkeypatch.setattr(systemd_scope, "_UNLIMITED", {"cgroup.max.depth": "5"})
    with pytest.raises(ScopeError, match=r"session-3.scope is a container or has limits"):
        Scopes().make(job)
    monkeypatch.setattr(systemd_scope, "_UNLIMITED", {"cgroup.max.depth": "max", "cpu.max": "x"})
    Scopes().make(job)


@pytest.mark.parametrize(
    ("unlimited", "limited"),
    [
        ({"cpu.max": "max 100000\n"}, {"cpu.max": "50000 100000\n"}),
        ({"cpuset.cpus": "\n"}, {"cpuset.cpus": "0-1\n"}),
        ({"cpu.weight": "100\n", "cpu.idle": "0\n"}, {"cpu.weight": "20\n"}),
        ({"io.max": "", "io.weight": "default 100\n"}, {"io.weight": "default 50\n"}),
        ({"memory.max": "max\n"}, {"memory.max": "1048576\n"}),
    ],
)
def test_what_limits_is_seen(tmp_path, unlimited, limited):
    for files, is_limited in ((unlimited, False), (limited, True)):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        assert systemd_scope._is_limited(tmp_path) == is_limited


def test_a_scope_is_asked_for_once(login):
    job = login.program()
    scope = Scopes().make(job).scope
    assert scope is not None
    for pid in JobGroup(scope / scope.stem, unified=True).pids():
        (login.home / "cgroup.procs").write_text(str(pid))
    with pytest.raises(ScopeError, match=r"systemd refuses: Call failed: Unit tfm-job-.* already"):
        Scopes().make(job)


def test_a_process_that_has_ended_has_none(login):
    job = login.program()
    login.end(job)
    with pytest.raises(ScopeError, match="has ended"):
        Scopes().make(job)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (None, "busctl cannot be started: No such file"),
        ("no tail", "tail cannot be started: No such file"),
        ("echo Access denied >&2; exit 1", "systemd refuses: Access denied"),
        ("exit 0", "systemd has not made tfm-job-"),
        ("exec sleep 600", "systemd has not answered within 0.2 s"),
    ],
)
def test_a_systemd_that_does_not_answer_is_named(login, tmp_path, monkeypatch, program, said):
    if program == "exec sleep 600":  # The others may take longer to start.
        monkeypatch.setattr(systemd_scope, "_SECONDS", 0.1)
    if program is None:
        (tmp_path / "busctl").unlink()
        (tmp_path / "tail").symlink_to("/usr/bin/tail")
        monkeypatch.setenv("PATH", str(tmp_path))
    elif program == "no tail":
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        (tmp_path / "busctl").write_text(f"#!/bin/sh\n{program}\n")
    job = login.program()
    before = login.pids()
    with pytest.raises(ScopeError, match=said):
        Scopes().make(job)
    assert login.pids() == before


def test_a_scope_weighs_its_job_and_is_left_to_systemd(tmp_path):
    process = ProcessId(7, 8, "boot")
    name = job_cgroup.name(process)
    scope = tmp_path / f"{name}.scope"
    (scope / name).mkdir(parents=True)
    for folder in (scope, scope / name):
        (folder / "cpu.weight").write_text("100")
    group = JobGroup(scope / name, unified=True)
    for found in (cpu_cgroup.make(process, group), cpu_cgroup.made_before(process, group)):
        assert found is not None
        assert found.folder == scope
        assert found.remove()
    assert scope.exists()
    assert JobGroup(tmp_path / name, unified=True).scope is None


def test_a_host_without_systemd_has_none(monkeypatch, tmp_path):
    monkeypatch.setattr(systemd_scope, "_BOOTED", tmp_path / "system")
    assert not systemd_scope.manages()
    with pytest.raises(ScopeError, match="systemd does not manage the cgroups"):
        systemd_scope.probe()


needs_systemd = pytest.mark.skipif(
    os.geteuid() != 0 or not systemd_scope.manages(),
    reason="needs systemd as init, cgroup v2, and root",
)


@pytest.fixture
def session() -> Iterator[ProcessId]:
    """The child of a shell, in a scope of the real systemd below the slice of a user."""
    process = subprocess.Popen(
        [
            *("systemd-run", "--quiet", "--scope", f"--unit=session-{uuid.uuid4().hex}.scope"),
            *("--slice=user-54321.slice", "setpriv", "--reuid=54321", "--clear-groups"),
            *("sh", "-c", "sleep 600 & echo $!; wait"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    identity = procfs.identify(int(process.stdout.readline()))
    assert identity is not None
    yield identity
    process.kill()
    if procfs.is_alive(identity):
        os.kill(identity.pid, 9)
    process.communicate()


@needs_systemd
def test_systemd_gives_a_job_a_weight(session):
    assert systemd_scope.probe()
    group = Scopes().make(session)
    weighed = cpu_cgroup.make(session, group)
    assert weighed is not None
    assert weighed.folder == group.scope
    assert group.scope.parent.name == "user-54321.slice"
    assert weighed.weigh(3)
    assert (weighed.folder / "cpu.weight").read_text() == "300\n"
    assert weighed.stand_back()
    assert (weighed.folder / "cpu.idle").read_text() == "1\n"
    assert (group.folder / "memory.max").exists()
    os.kill(session.pid, 9)
    wait_for(lambda: not weighed.folder.exists())


@needs_systemd
def test_a_job_is_stopped_with_its_session(session):
    unit = Path(f"/proc/{session.pid}/cgroup").read_text().strip().rpartition("/")[2]
    scope = Scopes().make(session).scope
    assert scope is not None
    subprocess.run(["systemctl", "stop", unit], check=True)
    wait_for(lambda: not scope.exists())
