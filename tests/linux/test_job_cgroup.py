# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The cgroup of one job: nothing that it forks can leave it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.cgroup_probe import skip_without
from tests.support.deadline import DEADLINE
from tests.support.jobs import has_ended
from tf_malleable.linux.cgroups import job_cgroup
from tf_malleable.linux.processes import procfs, signals
from tf_malleable.linux.processes.process_table import ProcessTable
from tf_malleable.model import ProcessId

# A child that leaves the session and outlives its parent, whose pid it tells.
ESCAPES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""


@pytest.fixture
def escape():
    """A process, its identity, its group and the pid of what escapes from its tree."""
    gate = "import sys; sys.stdin.readline()\n"
    process = subprocess.Popen(
        [sys.executable, "-c", gate + ESCAPES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    identity = procfs.identify(process.pid)
    assert identity is not None
    group = job_cgroup.make(identity)
    if group is None:
        process.kill()
        process.communicate()
        skip_without("freezer")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    child = int(process.stdout.readline())
    yield process, identity, group, child
    for pid in (child, process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.communicate()
    wait_until(group.remove)


def wait_until(condition) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_leaves_the_tree_is_still_in_the_group(escape):
    process, _, group, child = escape
    wait_until(lambda: child not in ProcessTable.now().tree(process.pid))
    assert {process.pid, child} <= set(group.pids())


def test_a_member_s_cgroup_names_the_main_process(escape):
    process, _, _, child = escape
    main = process.pid, procfs.identify(process.pid).start
    assert job_cgroup.main_of(child) == job_cgroup.main_of(process.pid) == main
    assert job_cgroup.main_of(os.getpid()) is None


def test_it_is_found_again_by_the_main_process(escape):
    _, identity, group, _ = escape
    again = job_cgroup.make(identity)
    assert again is not None
    assert again.folder == group.folder
    assert job_cgroup.found(group.folder, identity) is not None
    reused = ProcessId(identity.pid, identity.start + 1, identity.boot)
    assert job_cgroup.found(group.folder, reused) is None
    another_boot = ProcessId(identity.pid, identity.start, "another boot")
    assert job_cgroup.found(group.folder, another_boot) is None


def test_it_is_below_the_cgroup_that_the_process_was_in(escape):
    _, _, group, _ = escape
    homes = [folder for folder, _ in job_cgroup._homes(os.getpid())]
    assert group.folder.parent in homes


def test_nothing_runs_while_it_is_frozen(escape):
    _, _, group, child = escape
    with group.frozen():
        signals.send([procfs.identify(child)], signal.SIGTERM)
        time.sleep(0.1)
        if not group._unified:  # A frozen process of v2 ends when it is told to.
            assert not has_ended(child)
    wait_until(lambda: has_ended(child))


def test_killing_it_leaves_nothing(escape):
    process, _, group, child = escape
    if not (group.folder / "cgroup.kill").exists():
        pytest.skip("cgroups of v1, and kernels before 5.14, have no cgroup.kill")
    assert group.kill()
    wait_until(lambda: has_ended(child) and has_ended(process.pid))


def test_no_group_where_nothing_is_mounted(monkeypatch):
    monkeypatch.setattr(job_cgroup.cgroup, "parse_mounts", lambda _: ())
    identity = procfs.identify(os.getpid())
    assert job_cgroup.make(identity) is None


def test_a_process_with_a_reused_pid_gets_no_signal():
    process = subprocess.Popen(["sleep", "600"])
    try:
        identity = procfs.identify(process.pid)
        assert identity is not None
        earlier = ProcessId(identity.pid, identity.start - 1, identity.boot)
        signals.send([earlier], signal.SIGKILL)
        time.sleep(0.2)
        assert process.poll() is None
        signals.send([identity], signal.SIGKILL)
        assert process.wait(DEADLINE) == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("forks", [False, True])
def test_whether_a_process_has_children(forks):
    command = "sleep 600 & echo; wait" if forks else "echo; exec sleep 600"
    process = subprocess.Popen(
        ["sh", "-c", command], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        process.stdout.readline()
        if not Path(f"/proc/{process.pid}/task/{process.pid}/children").exists():
            assert procfs.has_children(process.pid)
        else:
            assert procfs.has_children(process.pid) == forks
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
