# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the controller asks of the scheduler, with and without the right to ask."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.controllers import controller
from tests.support.deadline import DEADLINE

IS_ROOT = os.geteuid() == 0

PROGRAM = """
import os, sys
from tf_malleable.linux.processes.priority import raise_priority
if sys.argv[1] == "nobody":
    os.seteuid(65534)
raise_priority()
print(os.getpriority(os.PRIO_PROCESS, 0), len(os.sched_getaffinity(0)))
"""
AUTOGROUP = """
try:
    print(open("/proc/self/autogroup").read().split()[-1])
except (OSError, IndexError):
    print("none")
"""


def output(program: str, *args: str, leads_session: bool) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
        start_new_session=leads_session,
    )
    return done.stdout.split()


def autogroup(*, leads_session: bool) -> str:
    """Return the niceness of the autogroup of a process that asks for nothing.

    ``none`` where there are no autogroups and for a session of the root group, such
    as that of process 1.
    """
    return output(AUTOGROUP, leads_session=leads_session)[0]


@pytest.mark.slow
@pytest.mark.skipif(not IS_ROOT, reason="only root may")
def test_with_permission_its_weight_is_higher(tmp_path):
    before = os.sched_getaffinity(0)
    with controller(tmp_path) as one:
        assert os.getpriority(os.PRIO_PROCESS, one.pid) == -20
        assert os.sched_getaffinity(one.pid) == before
        assert len(one.get("/v1")["cpus"]) == len(before)


@pytest.mark.skipif(not IS_ROOT, reason="only root may")
def test_a_session_of_its_own_weighs_more():
    if autogroup(leads_session=True) == "none":
        pytest.skip("this kernel has no autogroups")
    assert output(PROGRAM + AUTOGROUP, "root", leads_session=True)[-1] == "-20"


@pytest.mark.skipif(not IS_ROOT, reason="only root may")
def test_a_session_of_others_keeps_its_weight():
    before = autogroup(leads_session=False)
    assert output(PROGRAM + AUTOGROUP, "root", leads_session=False)[-1] == before


CPUS_KEPT = """
from tf_malleable.linux.processes.priority import unpinned_cpus
print(len(unpinned_cpus()))
"""


def test_on_one_cpu_it_still_knows_which_it_may_use():
    found = output(PROGRAM + CPUS_KEPT, "nobody" if IS_ROOT else "user", leads_session=True)
    assert found[-1] == str(len(os.sched_getaffinity(0)))


def test_without_permission_it_stays_on_one_cpu():
    found = output(PROGRAM, "nobody" if IS_ROOT else "user", leads_session=True)
    assert found == [str(os.getpriority(os.PRIO_PROCESS, 0)), "1"]
