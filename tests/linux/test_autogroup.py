# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Weights of CPU time by session: what the kernel makes of them, and hosts that have none."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import tf_malleable
from tests.support import ROOT
from tests.support.deadline import DEADLINE
from tf_malleable.linux.cgroups import autogroup
from tf_malleable.linux.cgroups.autogroup import AutogroupError, SessionWeight
from tf_malleable.linux.cgroups.cgroup import parse_mounts
from tf_malleable.linux.processes import procfs
from tf_malleable.model import ProcessId

IS_ROOT = os.geteuid() == 0
PR_SET_DUMPABLE = 4
PACKAGE = Path(tf_malleable.__file__).parents[1]
SLEEPS = "import time; print(flush=True); time.sleep(600)"
V2 = "30 23 0:26 / {point} rw - cgroup2 cgroup2 rw\n"


@contextmanager
def sleeper(**options: object) -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPS],
        stdout=subprocess.PIPE,
        **options,  # type: ignore[call-overload]
    )
    try:
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def nice_in_force(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/autogroup").read_text().split()[-1])
    except (OSError, IndexError):
        return None


def session(pid: int, *, raises: bool) -> SessionWeight:
    process = procfs.identify(pid)
    assert process is not None
    return SessionWeight(process, raises)


def set_to(one: SessionWeight, weight: float | None) -> bool:
    """Set a weight, or the lowest, as soon as the kernel takes another one."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        with suppress(BlockingIOError):
            return one.stand_back() if weight is None else one.weigh(weight)
        time.sleep(0.02)
    raise TimeoutError


@pytest.mark.parametrize(
    ("weight", "nice"), [(0, 19), (0.5, 3), (1, 0), (2, -4), (10, -11), (86, -20), (1000, -20)]
)
def test_the_niceness_of_a_weight_is_the_kernel_s(weight, nice):
    # By sched_prio_to_weight of kernel/sched/core.c.
    assert autogroup.nice_of(weight) == nice


def test_a_session_of_its_own_has_a_weight():
    with sleeper(start_new_session=True) as pid:
        if nice_in_force(pid) is None:
            pytest.skip("this kernel has no autogroups")
        assert autogroup.session_of(pid) == pid
        if IS_ROOT:
            assert set_to(session(pid, raises=True), 10)
            assert nice_in_force(pid) == -11
        assert set_to(session(pid, raises=False), None)
        assert nice_in_force(pid) == 19
        assert set_to(session(pid, raises=False), 10)
        assert nice_in_force(pid) == 0


@pytest.mark.skipif(not IS_ROOT, reason="only root can be somebody else")
def test_without_rights_it_can_be_lowered_and_restored():
    program = f"""
import ctypes, os
from tests.linux.test_autogroup import nice_in_force, session, set_to
me = os.getpid()
os.setuid(65534)
# Its files in /proc would be those of root otherwise.
ctypes.CDLL(None).prctl({PR_SET_DUMPABLE}, 1, 0, 0, 0)
found = [nice_in_force(me)]
for weight in (None, 10):
    set_to(session(me, raises=False), weight)
    found.append(nice_in_force(me))
print(*found, set_to(session(me, raises=True), 10))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{PACKAGE}"},
        check=False,
    )
    if done.stdout.startswith("None"):
        pytest.skip("this kernel has no autogroups")
    assert done.stdout.split() == ["0", "19", "0", "False"], done.stderr


def test_a_session_with_other_programs_has_none():
    with sleeper() as pid:
        assert autogroup.session_of(pid) is None


def test_the_session_of_a_terminal_has_none():
    pid, terminal = pty.fork()
    if not pid:
        os.execv(sys.executable, [sys.executable, "-c", SLEEPS])
    try:
        os.read(terminal, 1)
        assert autogroup.session_of(pid) is None
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def test_what_has_ended_has_none():
    with sleeper(start_new_session=True) as pid:
        ended = session(pid, raises=False)
    assert autogroup.session_of(pid) is None
    assert not ended.stand_back()


def test_another_process_with_the_pid_of_an_ended_one_keeps_its_weight():
    with sleeper(start_new_session=True) as pid:
        if nice_in_force(pid) is None:
            pytest.skip("this kernel has no autogroups")
        before = session(pid, raises=False).process
        ended = ProcessId(before.pid, before.start - 1, before.boot)
        assert not SessionWeight(ended, raises=False).stand_back()
        assert nice_in_force(pid) == 0


def test_off_it_counts_nothing(tmp_path):
    with pytest.raises(AutogroupError, match="autogroup is off"):
        autogroup.check_in("0", (), {})


@pytest.mark.parametrize("memberships", [{"cpu": "/docker/abc"}, {"": "/session.scope"}])
def test_in_a_cgroup_that_divides_first_it_counts_nothing(tmp_path, memberships):
    (tmp_path / "session.scope").mkdir()
    (tmp_path / "session.scope" / "cpu.weight").write_text("100\n")
    with pytest.raises(AutogroupError, match="cgroups divide the CPU time before"):
        autogroup.check_in("1", parse_mounts(V2.format(point=tmp_path)), memberships)


def test_beside_a_cgroup_of_other_controllers_it_counts(tmp_path):
    (tmp_path / "session.scope").mkdir()
    mounts = parse_mounts(V2.format(point=tmp_path))
    autogroup.check_in("1", mounts, {"": "/session.scope", "cpu": "/"})
