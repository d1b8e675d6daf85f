# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the controller asks of the scheduler, with and without the right to ask."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from controllers import controller

IS_ROOT = os.geteuid() == 0
HAS_AUTOGROUP = Path("/proc/self/autogroup").exists()

PROGRAM = """
import os, sys
from tf_malleable.controller.promptness import be_prompt
if sys.argv[1] == "nobody":
    os.seteuid(65534)
be_prompt()
print(os.getpriority(os.PRIO_PROCESS, 0), len(os.sched_getaffinity(0)))
print(open("/proc/self/autogroup").read() if os.path.exists("/proc/self/autogroup") else "")
"""


def prompt(who: str, *, leads_session: bool) -> list[str]:
    """Return niceness, number of CPUs and autogroup of a process that asked."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, who],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        start_new_session=leads_session,
    )
    return done.stdout.split()


@pytest.mark.skipif(not IS_ROOT, reason="only root may")
def test_with_permission_its_weight_is_higher(tmp_path):
    before = os.sched_getaffinity(0)
    with controller(tmp_path) as one:
        assert os.getpriority(os.PRIO_PROCESS, one.pid) == -10
        assert os.sched_getaffinity(one.pid) == before
        assert len(one.get("/v1")["cpus"]) == len(before)


@pytest.mark.skipif(not IS_ROOT or not HAS_AUTOGROUP, reason="only root may, and with autogroups")
@pytest.mark.parametrize(("leads_session", "nice"), [(True, "-10"), (False, None)])
def test_a_session_of_its_own_weighs_more_one_of_others_does_not(leads_session, nice):
    inherited = Path("/proc/self/autogroup").read_text().split()[-1]
    found = prompt("root", leads_session=leads_session)
    assert found[-1] == (nice or inherited)


def test_without_permission_it_stays_on_one_cpu():
    found = prompt("nobody" if IS_ROOT else "user", leads_session=True)
    assert found[:2] == [str(os.getpriority(os.PRIO_PROCESS, 0)), "1"]
