# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Where a container's cgroup files are, and what they say: v1, v2 and both at once.

On trees of files; what the kernel of the machine has is tested with real containers.
"""

from __future__ import annotations

import os

import pytest

from tf_malleable.linux.cgroups import cgroup_files
from tf_malleable.linux.cgroups.cgroup_files import CgroupFiles, paths

ID = "0123456789abcdef" * 4
V2 = "30 23 0:26 / {root}/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
V1 = "".join(
    f"3{number} 23 0:3{number} / {{root}}/{names} rw,nosuid - cgroup cgroup rw,{names}\n"
    for number, names in enumerate(("cpu,cpuacct", "cpuset", "freezer"))
)
V1_MEMBER = f"4:cpuset:/docker/{ID}\n3:cpu,cpuacct:/docker/{ID}\n2:freezer:/docker/{ID}\n"
V2_MEMBER = f"0::/system.slice/docker-{ID}.scope\n"
HYBRID = V1 + V2.replace("/cgroup rw", "/unified rw")


def put(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Let a process, ours, be in a container of a machine with these mounts."""

    def be(mountinfo, membership):
        texts = mountinfo.format(root=tmp_path), membership
        monkeypatch.setattr(cgroup_files, "_paths", lambda pid: paths(*texts))
        return CgroupFiles(os.getpid())

    return be


def fill_v1(root):
    inner = f"docker/{ID}"
    put(root / "cpuset" / inner, cpuset__effective_cpus="0-1,5\n", cpuset__cpus="0-1,5\n")
    put(root / "freezer" / inner, freezer__state="FROZEN\n")
    put(
        root / "cpu,cpuacct" / inner,
        cpu__cfs_quota_us="150000\n",
        cpu__cfs_period_us="100000\n",
        cpuacct__usage="2500000000\n",
        cgroup__procs="7\n9\n",
    )


def fill_v2(folder):
    put(
        folder,
        cpuset__cpus__effective="2-3\n",
        cpu__max="300000 100000\n",
        cgroup__events="populated 1\nfrozen 0\n",
        cpu__stat="usage_usec 1500000\nuser_usec 1\n",
        cgroup__procs="11\n",
    )


@pytest.mark.parametrize("mountinfo", [V1, HYBRID])
@pytest.mark.parametrize("member", [V1_MEMBER, V1_MEMBER + f"0::/docker/{ID}\n"])
def test_v1_has_a_folder_for_each_controller(machine, tmp_path, mountinfo, member):
    fill_v1(tmp_path)
    state = machine(mountinfo, member).read()
    assert (state.cpus, state.quota_cpus) == (frozenset({0, 1, 5}), 1.5)
    assert (state.frozen, state.cpu_seconds, state.pids) == (True, 2.5, (7, 9))


def test_v2_has_one_for_all(machine, tmp_path):
    fill_v2(tmp_path / f"cgroup/system.slice/docker-{ID}.scope")
    files = machine(V2, V2_MEMBER)
    state = files.read()
    assert (state.cpus, state.quota_cpus) == (frozenset({2, 3}), 3)
    assert (state.frozen, state.cpu_seconds, state.pids) == (False, 1.5, (11,))
    put(
        tmp_path / f"cgroup/system.slice/docker-{ID}.scope",
        cgroup__events="populated 1\nfrozen 1\n",
        cpu__max="max 100000\n",
    )
    assert (files.read().frozen, files.read().quota_cpus) == (True, None)


def test_v2_without_its_cpuset_controller_says_no_cpus(machine, tmp_path):
    folder = tmp_path / f"cgroup/system.slice/docker-{ID}.scope"
    fill_v2(folder)
    (folder / "cpuset.cpus.effective").unlink()
    assert machine(V2, V2_MEMBER).read().cpus is None


@pytest.mark.parametrize("text", ["", "nonsense\n", "9" * 400])
def test_files_that_make_no_sense_say_nothing(machine, tmp_path, text):
    folder = tmp_path / f"cgroup/system.slice/docker-{ID}.scope"
    fill_v2(folder)
    put(folder, cpuset__cpus__effective=text, cpu__max=text)
    state = machine(V2, V2_MEMBER).read()
    assert (state.cpus, state.quota_cpus) == (None, None)


def test_what_is_written_is_what_is_read(machine, tmp_path):
    fill_v1(tmp_path)
    files = machine(V1, V1_MEMBER)
    cgroup_files.write(1, cpuset="0", quota_cpus=2)
    assert (tmp_path / f"cpuset/docker/{ID}/cpuset.cpus").read_text() == "0"
    assert files.read().quota_cpus == 2
    fill_v2(tmp_path / f"cgroup/system.slice/docker-{ID}.scope")
    files = machine(V2, V2_MEMBER)
    cgroup_files.write(1, quota_cpus=1)
    assert files.read().quota_cpus == 1
