# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Limits follow real cgroups, in real programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import cgroups
from tests.support.cgroup_probe import skip_without
from tests.support.controllers import TFM
from tests.support.deadline import DEADLINE
from tests.support.jobs import ALL, CPUS, FIRST, Job
from tf_malleable.agent.cgroup_follower import threads_for

FOLLOW = {"TF_MALLEABLE_FOLLOW_CGROUP": "1"}
EVERY = len(CPUS)

# Starts when told to, then evaluates what it is told, or does it after a "do", and
# answers with the result.
LIGHT = """
import json, os, sys, threading, time
from contextlib import suppress
sys.stdin.readline()
import tf_malleable as tfm

def limits():
    now = tfm.get_threads()
    return [now.intra, now.inter]

def names():
    return [thread.name for thread in threading.enumerate()]

print("ready", flush=True)
for line in sys.stdin:
    if line.startswith("do "):
        exec(line[3:])
        line = "None"
    print(json.dumps(eval(line)), flush=True)
"""

# The same with TensorFlow, whose pools are there from the start.
TENSORFLOW = LIGHT.replace(
    "import tf_malleable as tfm",
    """
import tf_malleable as tfm
import tensorflow as tf
tf.random.normal((64, 64)) @ tf.random.normal((64, 64))

def pools():
    return sorted({pool.limit for pool in tfm.pools() if pool.kind != "other"})
""",
)

if EVERY < 2:
    pytest.skip("one CPU cannot become fewer", allow_module_level=True)


@pytest.fixture
def group():
    try:
        made = cgroups.make(f"tfm-test-{os.getpid()}")
    except OSError:
        skip_without("cpu")
    yield made
    made.remove()


def begin(program: str, group: cgroups.Group | None = None, **env: str) -> Job:
    job = Job(program, None, **env)
    if group is not None:
        group.add(job.pid)
    assert job.ask() == "ready"
    return job


def value(job: Job, expression: str):
    return json.loads(job.ask(expression))


def do(job: Job, statement: str) -> None:
    assert value(job, f"do {statement}") is None


def becomes(job: Job, expression: str, wanted: object) -> bool:
    """Wait until an expression has a value in the program."""
    deadline = time.monotonic() + DEADLINE / 2
    while (found := value(job, expression)) != wanted:
        if time.monotonic() > deadline:
            raise AssertionError(f"{expression} is {found}, not {wanted}")
        time.sleep(0.01)
    return True


def stays(job: Job, expression: str, wanted: object) -> bool:
    """Return whether an expression keeps its value while a follower looks a few times."""
    until = time.monotonic() + 0.7
    while (found := value(job, expression)) == wanted and time.monotonic() < until:
        time.sleep(0.02)
    return found == wanted


@pytest.mark.slow
def test_tensorflow_starts_at_its_quota_and_follows_it(group):
    group.set_quota(1)
    many = {"TF_NUM_INTRAOP_THREADS": "64", "TF_NUM_INTEROP_THREADS": "64"}
    with begin(TENSORFLOW, group, **FOLLOW, TF_MALLEABLE_MAX_THREADS="64", **many) as job:
        assert value(job, "[limits(), pools()]") == [[1, 1], [1]]
        # Or operations were cut into 64 pieces for one thread.
        started = "__import__('os').environ['TF_NUM_INTRAOP_THREADS']"
        assert value(job, started) == "1"
        assert value(job, "sorted({pool.capacity for pool in tfm.pools()})")[-1] == 64
        group.set_quota(1.2)
        assert becomes(job, "[limits(), pools()]", [[2, 2], [2]])
        group.set_quota(0.5)
        assert becomes(job, "[limits(), pools()]", [[1, 1], [1]])
        group.set_quota(None)
        assert becomes(job, "[limits(), pools()]", [[EVERY, EVERY], [EVERY]])
        assert value(job, "tfm.wait_settled(10)") is True


@pytest.mark.slow
def test_tensorflow_follows_its_cpuset_and_another_cgroup(group):
    small, large = group.child("small"), group.child("large")
    small.set_quota(0.3)
    with begin(TENSORFLOW, large, **FOLLOW, TF_MALLEABLE_MAX_THREADS="16") as job:
        assert value(job, "pools()") == [EVERY]
        large.set_cpus(str(CPUS[-1]))
        assert becomes(job, "pools()", [1])
        large.set_cpus(f"{CPUS[0]},{CPUS[-1]}")
        assert becomes(job, "pools()", [2])
        small.add(job.pid)
        assert becomes(job, "pools()", [1])
        large.add(job.pid)
        assert becomes(job, "pools()", [2])


def test_a_limit_of_a_parent_counts(group):
    inner = group.child("outer").child("inner")
    with begin(LIGHT, inner, **FOLLOW) as job:
        assert becomes(job, "limits()", [2, 2])
        group.below[0].set_quota(1)
        assert becomes(job, "limits()", [1, 1])
        group.below[0].set_quota(None)
        assert becomes(job, "limits()", [2, 2])
        group.set_quota(0.9)
        assert becomes(job, "limits()", [1, 1])


@pytest.mark.slow
def test_limits_set_by_hand_end_it_until_it_is_asked_for_again(group):
    group.set_quota(1)
    with begin(LIGHT, group, TF_MALLEABLE_MAX_THREADS="16") as job:
        assert value(job, "names()") == ["MainThread"]
        assert value(job, "[tfm.follow_cgroup(), limits()]") == [1, [1, 1]]
        do(job, "tfm.set_threads(3)")
        group.set_quota(2)
        assert stays(job, "limits()", [3, 3])
        assert becomes(job, "names()", ["MainThread"])
        assert value(job, "[tfm.follow_cgroup(), limits()]") == [2, [2, 2]]
        do(job, f"tfm.set_cpuset({FIRST})")
        do(job, f"os.sched_setaffinity(0, {ALL})")
        assert stays(job, "limits()", [1, 1])
        assert value(job, "[tfm.follow_cgroup(), tfm.follow_cgroup(), limits()]")[2] == [2, 2]
        # What is refused sets nothing by hand.
        do(job, "with suppress(ValueError): tfm.set_threads(0)")
        group.set_quota(1)
        assert becomes(job, "limits()", [1, 1])


@pytest.mark.slow
def test_limits_for_a_while_pause_it(group):
    group.set_quota(1)
    with begin(LIGHT, group, **FOLLOW, TF_MALLEABLE_MAX_THREADS="16") as job:
        do(job, "own = tfm.threads(5); own.__enter__()")
        assert value(job, "limits()") == [5, 5]
        group.set_quota(2)
        assert stays(job, "limits()", [5, 5])
        do(job, "own.__exit__(None, None, None)")
        assert becomes(job, "limits()", [2, 2])
        group.set_quota(1)
        assert becomes(job, "limits()", [1, 1])
        # One by hand inside of it ends it, as anywhere.
        do(job, "own.__enter__(); tfm.set_threads(7); own.__exit__(None, None, None)")
        group.set_quota(2)
        assert stays(job, "limits()", [7, 7])


@pytest.mark.slow
def test_threadpoolctl_s_limits_pause_it(group):
    group.set_quota(1)
    with begin(TENSORFLOW, group, **FOLLOW, TF_MALLEABLE_MAX_THREADS="16") as job:
        do(job, "from threadpoolctl import threadpool_limits")
        do(job, "own = threadpool_limits(5, user_api='tensorflow')")
        group.set_quota(2)
        assert stays(job, "limits()", [5, 5])
        do(job, "own.restore_original_limits()")
        assert becomes(job, "limits()", [2, 2])
        # scikit-learn limits others only, all the time.
        do(job, "own = threadpool_limits(5, user_api='blas')")
        group.set_quota(1)
        assert becomes(job, "limits()", [1, 1])
        do(job, "own.restore_original_limits()")
        assert stays(job, "limits()", [1, 1])
        group.set_quota(2)
        assert becomes(job, "limits()", [2, 2])


FORKING = LIGHT.replace(
    'print("ready", flush=True)',
    """
def in_child():
    "Fork; return what tells of the child's limits and threads at its end."
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        until = time.monotonic() + (20 if len(names()) > 1 else 0.5)
        while limits() != [2, 2] and time.monotonic() < until:
            time.sleep(0.02)
        os.write(write, json.dumps([limits(), names()]).encode())
        os._exit(0)
    os.close(write)
    return lambda: [json.loads(open(read).read()), os.waitpid(pid, 0)[1]]

print("ready", flush=True)
""",
)


def test_a_forked_child_follows_if_its_parent_does(group):
    group.set_quota(1)
    with begin(FORKING, group, **FOLLOW, TF_MALLEABLE_MAX_THREADS="16") as job:
        do(job, "child = in_child()")
        group.set_quota(2)
        assert value(job, "child()") == [[[2, 2], ["MainThread", "tf_malleable_cgroup"]], 0]
        assert becomes(job, "limits()", [2, 2])
        do(job, "tfm.set_threads(3); child = in_child()")
        assert value(job, "child()") == [[[3, 3], ["MainThread"]], 0]


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "os._exit(4)", "os.closerange(3, 64)"])
def test_the_program_ends_as_without_it(ending):
    program = f"import os, sys, time, tf_malleable\ntime.sleep(0.25)\n{ending}\ntime.sleep(0.25)\n"
    with Job(program, None, **FOLLOW, PYTHONDEVMODE="1") as job:
        code = int("".join(filter(str.isdigit, ending))) if "exit" in ending else 0
        assert job.end() == (code, "", "")


def test_it_is_one_thread_that_takes_no_signals():
    with begin(LIGHT, **FOLLOW) as job:
        threads = set(os.listdir(f"/proc/{job.pid}/task")) - {str(job.pid)}
        (status,) = [Path(f"/proc/{job.pid}/task/{thread}/status") for thread in threads]
        lines = dict(line.split(":\t", 1) for line in status.read_text().splitlines())
    blocked = int(lines["SigBlk"], 16)
    assert all(blocked >> number - 1 & 1 for number in (1, 2, 10, 15, 17))


def test_where_no_thread_can_be_started_the_first_limit_holds(group):
    group.set_quota(1)
    refuse = (
        "def refuse(self):\n    raise RuntimeError('can not start new thread')\n"
        "threading.Thread.start = refuse\nimport tf_malleable as tfm"
    )
    program = LIGHT.replace("import tf_malleable as tfm", refuse)
    with begin(program, group, **FOLLOW, TF_MALLEABLE_MAX_THREADS="16") as job:
        assert value(job, "[limits(), names()]") == [[1, 1], ["MainThread"]]


def test_after_tensorflow_it_is_refused_like_the_others():
    program = (
        "import ctypes, importlib.util\n"
        "(tensorflow,) = importlib.util.find_spec('tensorflow').submodule_search_locations\n"
        "ctypes.CDLL(tensorflow + '/libtensorflow_framework.so.2')\n"
        "import tf_malleable as tfm\n"
        "tfm.follow_cgroup()\n"
    )
    with Job(program, None, **FOLLOW) as job:
        code, _, err = job.end()
    assert code == 1
    assert "NotMalleableError: tf_malleable was imported after tensorflow" in err


def test_a_garbage_variable_is_one_sentence():
    with Job("import tf_malleable", None, TF_MALLEABLE_FOLLOW_CGROUP="yes") as job:
        code, out, err = job.end()
    assert (code, out) == (1, "")
    assert (
        err.splitlines()[-1] == "ValueError: TF_MALLEABLE_FOLLOW_CGROUP must be 0 or 1, not 'yes'"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "limits"), [("--follow-cgroup", "1 1"), ("--no-follow-cgroup", "2 2")]
)
def test_an_unchanged_script_under_tfm_run(group, tmp_path, option, limits):
    script = tmp_path / "train.py"
    script.write_text(
        "import tensorflow as tf\ntf.constant(1.0) + 1\nimport tf_malleable as tfm\n"
        "print(tfm.get_threads().intra, tfm.get_threads().inter)\n"
    )
    group.set_quota(1)
    # The shell stops until it has been moved.
    shell = f"kill -STOP $$; exec {TFM} run {option} -- {sys.executable} {script}"
    env = {k: v for k, v in os.environ.items() if not k.startswith("TF_")}
    env |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_MALLEABLE_SOCKET": str(tmp_path / "none.sock")}
    env |= {"TF_NUM_INTRAOP_THREADS": "2", "TF_NUM_INTEROP_THREADS": "2"}
    with subprocess.Popen(
        ["sh", "-c", shell], stdout=subprocess.PIPE, text=True, env=env
    ) as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        group.add(process.pid)
        os.kill(process.pid, 18)
        assert process.communicate(timeout=DEADLINE)[0] == f"{limits}\n"


@pytest.mark.slow
def test_a_grant_and_the_cgroup_s_change_end_in_the_same_limit(fake, group):
    fake.grant(ALL, confined=True)
    group.set_cpus(f"{CPUS[0]},{CPUS[-1]}")
    with Job(LIGHT, fake.path, **FOLLOW, TF_MALLEABLE_MAX_THREADS="16") as job:
        group.add(job.pid)
        job.ask()
        for grant_first in (True, False) * 3:
            for cpus, text in ((FIRST, str(CPUS[0])), (ALL, f"{CPUS[0]}-{CPUS[-1]}")):
                steps = [lambda c=cpus: fake.wait_for_acknowledgement(fake.grant(c, confined=True))]
                steps.insert(0 if not grant_first else 1, lambda t=text: group.set_cpus(t))
                for step in steps:
                    step()
                assert becomes(job, "limits()", [len(cpus)] * 2)
                assert stays(job, "limits()", [len(cpus)] * 2)
        # Without a controller the last grant holds, until the container is changed.
        fake.wait_for_acknowledgement(fake.grant(FIRST, confined=True))
        fake.close()
        assert stays(job, "limits()", [1, 1])
        group.set_quota(0.5)
        assert stays(job, "limits()", [1, 1])
        group.set_quota(None)
        assert becomes(job, "limits()", [EVERY, EVERY])
        # And it decides again when it is back.
        fake.open()
        fake.wait_for_acknowledgement(fake.grant(FIRST, confined=True))
        assert stays(job, "limits()", [1, 1])
        assert job.is_on(ALL)


@pytest.mark.parametrize(
    ("cpus", "threads"), [(0.01, 1), (0.5, 1), (1, 1), (1.01, 2), (2.5, 3), (64, 64)]
)
def test_threads_are_rounded_up(cpus, threads):
    assert threads_for(cpus) == threads
