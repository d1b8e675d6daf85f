# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the controller reads off and does to real processes."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.deadline import DEADLINE
from tf_malleable.linux.processes import affinity, pidfds, procfs

THREADS = """
import threading, time
for _ in range(5):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("ready", flush=True)
time.sleep(60)
"""
FAMILY = "sh -c 'sleep 60 & sleep 60 & echo ready; wait' & wait"
EXIT_CODE_FOR_NOBODY = """
import os, sys
from tf_malleable.linux.processes import pidfds, procfs
os.setgroups([]); os.setgid(65534); os.setuid(65534)
found = pidfds.process_exit(procfs.identify(int(sys.argv[1])), os.pidfd_open(int(sys.argv[1])))
print(found and found.code)
"""


def start(*command: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def end(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.fixture
def threaded():
    process = start(sys.executable, "-c", THREADS)
    yield process
    end(process)


@pytest.fixture
def family():
    process = start("sh", "-c", FAMILY)
    yield process
    end(process)


def test_identity_is_of_this_process_and_no_other(threaded):
    process = procfs.identify(threaded.pid)
    assert process is not None
    assert procfs.is_alive(process)
    assert not procfs.is_alive(procfs.ProcessId(process.pid, process.start + 1, process.boot))
    assert not procfs.is_alive(procfs.ProcessId(process.pid, process.start, "another boot"))


def test_a_name_with_parentheses_and_spaces_is_read_right(tmp_path):
    odd = tmp_path / "a) T 1 (b"
    odd.symlink_to("/bin/sleep")
    process = subprocess.Popen([odd, "60"])
    try:
        deadline = time.monotonic() + DEADLINE
        while "a) T" not in (comm := name_of(process.pid)):
            assert time.monotonic() < deadline, comm
        stat = procfs.read_stat(process.pid)
        assert stat is not None
        assert stat.parent == os.getpid()
        assert stat.state in "RSD"
    finally:
        process.kill()
        process.wait()


def test_a_tree_has_all_descendants(family):
    deadline = time.monotonic() + DEADLINE
    while True:
        tree = procfs.trees([family.pid])[family.pid]
        if sorted(map(name_of, tree)) == ["sh", "sh", "sleep", "sleep"]:
            break  # Before that a child may still be called as its parent.
        assert time.monotonic() < deadline, tree
    assert tree[0] == family.pid
    assert all(family.pid in procfs.ancestors(pid) for pid in tree)


def test_confine_moves_every_thread(threaded):
    cpu = min(os.sched_getaffinity(0))
    affinity.confine([threaded.pid], frozenset({cpu}))
    threads = os.listdir(f"/proc/{threaded.pid}/task")
    assert len(threads) == 6
    assert {frozenset(os.sched_getaffinity(int(thread))) for thread in threads} == {
        frozenset({cpu})
    }


def test_confining_what_has_ended_or_is_impossible_does_nothing(threaded):
    affinity.confine([2**22 - 1], frozenset({0}))
    before = os.sched_getaffinity(threaded.pid)
    affinity.confine([threaded.pid], frozenset({4000}))
    assert os.sched_getaffinity(threaded.pid) == before


def test_cpu_time_is_of_all_threads_and_of_children_waited_for():
    busy = "import time\nwhile time.process_time() < 0.3: pass\n"
    parent = (
        "import subprocess, sys, time\n"
        f"subprocess.run([sys.executable, '-c', {busy!r}])\n"
        "print('ready', flush=True)\ntime.sleep(60)\n"
    )
    process = start(sys.executable, "-c", parent)
    try:
        stat = procfs.read_stat(process.pid)
        assert stat is not None
        assert stat.cpu_seconds > 0.28  # Less than a tick is lost of user and of system time.
    finally:
        end(process)


@pytest.mark.parametrize(
    ("command", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143)]
)
def test_the_exit_code_of_somebody_else_s_child(command, code):
    """Its parent is a shell that waits for it a moment later, as a user's would."""
    script = f"exec 3<&0; sh -c 'echo $$; read x; {command}' <&3 & wait; exec sleep 60"
    shell = subprocess.Popen(
        ["sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert shell.stdin is not None
        assert shell.stdout is not None
        process = procfs.identify(int(shell.stdout.readline()))
        assert process is not None
        pidfd = pidfds.open_pidfd(process)
        assert pidfd is not None
        shell.stdin.write("go\n")
        shell.stdin.flush()
        assert select.select([pidfd], [], [], 10)[0]
        found = pidfds.process_exit(process, pidfd)
        os.close(pidfd)
        # A kernel before 6.15 cannot say once the parent was quicker than we.
        newer = tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 15)
        if found is None:
            assert not newer
        else:
            assert (found.code, found.signal) == (code, code - 128 if code > 128 else None)
    finally:
        end(shell)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_an_exit_code_that_proc_hides_is_not_taken_for_0():
    zombie = subprocess.Popen(["sh", "-c", "exit 7"])
    try:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        command = [sys.executable, "-c", EXIT_CODE_FOR_NOBODY, str(zombie.pid)]
        found = subprocess.run(command, capture_output=True, check=True).stdout
        assert found in (b"7\n", b"None\n")
    finally:
        zombie.wait()


def test_there_is_no_pidfd_of_a_process_that_took_the_number_over(threaded):
    process = procfs.identify(threaded.pid)
    assert process is not None
    earlier = procfs.ProcessId(process.pid, process.start - 1, process.boot)
    assert pidfds.open_pidfd(earlier) is None
    # A thread may take it over, too.
    threads = set(map(int, os.listdir(f"/proc/{threaded.pid}/task"))) - {threaded.pid}
    later = procfs.ProcessId(threads.pop(), process.start, process.boot)
    assert pidfds.open_pidfd(later) is None


@pytest.mark.parametrize("free", [0, 1])
def test_without_free_descriptors_nobody_seems_to_have_ended(threaded, free):
    process = procfs.identify(threaded.pid)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + free, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            pidfds.open_pidfd(process)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_threads_that_compete_for_a_cpu_queue_and_those_that_sleep_do_not():
    cpu = min(os.sched_getaffinity(0))
    asleep = start(sys.executable, "-c", THREADS)
    busy = [start(sys.executable, "-c", "print('ready', flush=True)\nwhile 1: pass") for _ in "ab"]
    try:
        for process in busy:
            os.sched_setaffinity(process.pid, {cpu})
        before = procfs.queued([process.pid for process in busy])
        time.sleep(1.0)
        after = procfs.queued([process.pid for process in busy])
        assert all(is_runnable for _, is_runnable in after.values())
        assert sum(after[thread][0] - before[thread][0] for thread in before) > 0.5
        resting = procfs.queued([asleep.pid])
        assert len(resting) == 6
        assert not any(is_runnable for _, is_runnable in resting.values())
    finally:
        for process in [asleep, *busy]:
            process.kill()
            process.communicate()


def test_nobody_queues_in_a_process_that_is_gone():
    assert procfs.queued([2**22 + 1]) == {}


def test_descendants_are_found_through_their_parents():
    program = "import subprocess, sys; subprocess.run(['sleep', '600'])"
    with subprocess.Popen([sys.executable, "-c", program]) as parent:
        try:
            deadline = time.monotonic() + DEADLINE
            while len(found := procfs.descendants(parent.pid)) < 2:
                assert time.monotonic() < deadline
            assert found == procfs.trees([parent.pid])[parent.pid]
            os.kill(found[1], signal.SIGKILL)
        finally:
            parent.kill()
    assert procfs.descendants(parent.pid) == [parent.pid]
