# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Cgroups of jobs whose records are lost are removed by the next controller, and no others."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.cgroup_probe import skip_without
from tests.support.controllers import controller, job, wait_for
from tf_malleable.linux.cgroups import job_cgroup


def cgroups(pid: int) -> list[Path]:
    """Return the cgroups of the job of a process, in all hierarchies."""
    return [
        Path(parent, name)
        for parent, names, _ in os.walk("/sys/fs/cgroup")
        for name in names
        if name.startswith(f"tfm-job-{pid}-")
    ]


def forget(state: Path) -> None:
    """Remove a state file, as after the loss of a disk."""
    for each in state.parent.glob(f"{state.name}*"):
        each.unlink()


@pytest.mark.serial("another controller of this user would remove the cgroup before this one does")
def test_of_a_job_that_has_ended(tmp_path):
    with controller(tmp_path) as first:
        with job(first.socket) as lost:
            lost.submit(mem=1 << 30)
            if not cgroups(lost.pid):
                skip_without("freezer")
            first.process.kill()
            first.process.wait()
        left = cgroups(lost.pid)
        assert left
        forget(first.state)
    with controller(tmp_path):
        wait_for(lambda: not any(each.exists() for each in left))


def test_of_one_that_runs_once_it_has_ended(tmp_path):
    with controller(tmp_path) as first, job(first.socket) as lost:
        lost.submit()
        left = cgroups(lost.pid)
        if not left:
            skip_without("freezer")
        first.process.kill()
        first.process.wait()
        forget(first.state)
        with controller(tmp_path) as second:
            lost.process.send_signal(signal.SIGKILL)
            lost.process.wait()

            def is_gone() -> bool:
                # It is tried again whenever another one is removed.
                with job(second.socket) as other:
                    other.submit()
                return not any(each.exists() for each in left)

            wait_for(is_gone)


def test_not_of_a_job_of_another_controller(tmp_path):
    (tmp_path / "other").mkdir()
    with controller(tmp_path) as first, job(first.socket) as kept:
        number = kept.submit()
        found = cgroups(kept.pid)
        if not found:
            skip_without("freezer")
        with controller(tmp_path / "other"), subprocess.Popen(["true"]) as ended:
            ended.wait()
        assert first.get(f"/v1/jobs/{number}")["state"] == "running"
        assert all(each.exists() for each in found)
        assert job_cgroup.main_of(kept.pid) is not None
