# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""OpenMP teams in a cgroup with a CPU quota, as in a pod, whose affinity does not show it."""

from __future__ import annotations

import os

import pytest

from tests.support import cgroups
from tests.support.cgroup_probe import skip_without
from tests.support.controllers import wait_for
from tests.support.openmp import CPUS, HOOK, NEEDED, Teams, compiled
from tf_malleable.runtime.environment import QUOTAS

pytestmark = NEEDED


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """Programs run without a controller."""
    monkeypatch.setenv("TF_MALLEABLE_SOCKET", str(tmp_path / "none.sock"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A C program, without Python and so without an agent."""
    return compiled(tmp_path_factory.mktemp("openmp"))


@pytest.fixture
def pod():
    """A cgroup of the kernel, with one inside it."""
    try:
        made = cgroups.make(f"tfm-test-quota-{os.getpid()}")
    except OSError:
        skip_without("cpu")
    try:
        yield made
    finally:
        made.remove()


def test_teams_follow_a_quota_that_changes(pod, program):
    container = pod.child("container")
    with Teams(program, options=("--follow-cgroup",), group=container) as teams:
        assert teams.answer(0) == len(CPUS)
        for group, quota, expected in (
            (container, 1, 1),
            (container, 1.5, 2),
            (container, 0.5, 1),
            (container, None, len(CPUS)),
            (pod, 1, 1),
            (pod, None, len(CPUS)),
        ):
            group.set_quota(quota)
            wait_for(lambda n=expected: teams.answer(0) == n)


def test_a_program_starts_with_what_the_quota_allows(pod, program):
    pod.set_quota(1)
    with Teams(program, options=("--follow-cgroup",), group=pod) as teams:
        assert teams.answers("procs") == [1, 1, 1]
        assert teams.answer("ask") == 1
    with Teams(program, options=("--no-follow-cgroup",), group=pod) as teams:
        assert teams.answer(0) == len(CPUS)
    with Teams(program, options=("--threads", "2"), group=pod) as teams:
        assert teams.answer(0) == 2


# The formats are those of Documentation/admin-guide/cgroup-v2.rst, and of
# Documentation/scheduler/sched-bwc.rst for v1.
@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"cpu.max": "max 100000\n"}, 2),
        ({"cpu.max": "100000 100000\n"}, 1),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "1000 1000000\n"}, 1),
        ({"cpu.max": "900000000000 100000\n"}, 2),
        ({"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, 2),
        ({"cpu.cfs_quota_us": "50000\n", "cpu.cfs_period_us": "100000\n"}, 1),
        ({"cpu.cfs_quota_us": "50000\n"}, 2),
        ({"cpu.max": ""}, 2),
        ({"cpu.max": "nonsense"}, 2),
        ({"cpu.max": "100000"}, 2),
        ({"cpu.max": "100000 0"}, 2),
        ({}, 2),
    ],
)
def test_all_that_the_kernel_may_say_is_understood(tmp_path, program, texts, expected):
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    names = ("cpu.max", "cpu.cfs_quota_us")
    said = {QUOTAS: "\n".join(str(tmp_path / name) for name in names), "LD_PRELOAD": str(HOOK)}
    with Teams(program, is_alone=True, TF_MALLEABLE_MAX_THREADS="2", **said) as teams:
        assert teams.answer(0) == expected


@pytest.mark.parametrize(
    "said", ["", "\n\n", "/" + "x" * 5000, "/x\n" * 5000, "/proc", "/dev/null"]
)
def test_quotas_that_cannot_be_read_are_none(program, said):
    with Teams(program, is_alone=True, LD_PRELOAD=str(HOOK), **{QUOTAS: said}) as teams:
        assert teams.answer(0) == len(CPUS)
