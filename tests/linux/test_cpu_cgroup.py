# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Weights of CPU time by cgroup: what the kernel makes of them, and hosts that have none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cgroup_probe import skip_without
from tests.support.deadline import DEADLINE
from tf_malleable.linux import files
from tf_malleable.linux.cgroups import cpu_cgroup, job_cgroup
from tf_malleable.linux.cgroups.cgroup import parse_mounts
from tf_malleable.linux.cgroups.cpu_cgroup import CpuCgroupError, CpuGroup
from tf_malleable.linux.cgroups.memory_cgroup import MemoryGroup
from tf_malleable.linux.processes import procfs

BUSY = "print(flush=True)\nwhile True: pass"
CHILD = "import os, time; print(os.fork(), flush=True); time.sleep(600)"


class Grouped:
    """A process in cgroups of its own, as a job."""

    def __init__(self, code: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.process.stdout.readline()
        identity = procfs.identify(self.process.pid)
        assert identity is not None
        self.identity = identity
        self.groups: list[object] = []
        group = job_cgroup.make(identity)
        if group is None:
            self.end()
            skip_without("freezer")
        self.group = group
        counted = cpu_cgroup.make(identity, group)
        if counted is None:
            self.end()
            group.remove()
            skip_without("cpu")
        self.counted = counted

    def cpu_seconds(self) -> float:
        stat = procfs.read_stat(self.process.pid)
        assert stat is not None
        return stat.cpu_seconds

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()

    def clean(self) -> None:
        for pid in self.group.pids():
            os.kill(pid, 9)
        self.end()
        deadline = time.monotonic() + DEADLINE
        while not (self.counted.remove() and self.group.remove()):
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.fixture
def grouped() -> Iterator[list[Grouped]]:
    found: list[Grouped] = []
    yield found
    for each in found:
        each.clean()


def one(grouped: list[Grouped], code: str = BUSY) -> Grouped:
    grouped.append(Grouped(code))
    return grouped[-1]


def usual_weight(group: CpuGroup) -> tuple[str, int]:
    """Return the file of the weight, and what is there at first."""
    return ("cpu.shares", 1024) if (group.folder / "cpu.shares").exists() else ("cpu.weight", 100)


def test_a_weight_is_a_multiple_of_the_usual_one(grouped):
    counted = one(grouped).counted
    name, usual = usual_weight(counted)
    assert (counted.folder / name).read_text() == f"{usual}\n"
    assert counted.weigh(10)
    assert (counted.folder / name).read_text() == f"{10 * usual}\n"
    assert counted.weigh(1e9)
    assert (counted.folder / name).read_text() == f"{round(counted.most * usual)}\n"


def test_a_job_stands_back_and_comes_forward_again(grouped):
    counted = one(grouped).counted
    if not (counted.folder / "cpu.idle").exists():
        pytest.skip("this kernel has no cpu.idle")
    assert counted.has_idle()
    assert counted.stand_back()
    assert (counted.folder / "cpu.idle").read_text() == "1\n"
    assert counted.weigh(3)
    assert (counted.folder / "cpu.idle").read_text() == "0\n"
    name, usual = usual_weight(counted)
    assert int((counted.folder / name).read_text()) == 3 * usual


def test_the_children_of_a_job_are_weighed_with_it(grouped):
    job = one(grouped, CHILD)
    inside = set(map(int, (job.counted.folder / "cgroup.procs").read_text().split()))
    assert inside == set(job.group.pids())
    assert len(inside) == 2


def test_it_is_found_again(grouped):
    job = one(grouped)
    for again in (
        cpu_cgroup.make(job.identity, job.group),
        cpu_cgroup.made_before(job.identity, job.group),
    ):
        assert again is not None
        assert again.folder == job.counted.folder


@pytest.mark.slow
@pytest.mark.serial("it measures shares of a CPU")
@pytest.mark.parametrize("stands_back", [True, False])
def test_the_heavier_of_two_on_a_cpu_has_nearly_all_of_it(grouped, stands_back):
    heavy, light = one(grouped), one(grouped)
    for each in (heavy, light):  # Not before: some kernels forget it when a process joins a cgroup.
        os.sched_setaffinity(each.process.pid, {0})
    assert heavy.counted.weigh(10)
    if stands_back:
        assert light.counted.stand_back()
    begin = heavy.cpu_seconds(), light.cpu_seconds()

    def since() -> tuple[float, float]:
        return heavy.cpu_seconds() - begin[0], light.cpu_seconds() - begin[1]

    deadline = time.monotonic() + DEADLINE
    while since()[0] < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    had, left = since()
    assert left / had < (0.1 if stands_back else 0.25)


def test_a_kernel_without_idle_class_gets_the_lowest_weight(tmp_path):
    for name in ("cpu.shares", "cpu.weight"):
        (tmp_path / name).write_text("")
    assert CpuGroup(tmp_path, unified=False).stand_back()
    assert (tmp_path / "cpu.shares").read_text() == "2"
    assert CpuGroup(tmp_path, unified=True).stand_back()
    assert (tmp_path / "cpu.weight").read_text() == "1"
    assert not (tmp_path / "cpu.idle").exists()


@pytest.mark.parametrize("kind", [CpuGroup, MemoryGroup])
@pytest.mark.parametrize("unified", [True, False])
def test_a_cgroup_is_removed_with_what_it_is_for(tmp_path, kind, unified):
    """Else the cgroup of a job would be left with v2, where all are one."""
    folder = tmp_path / "tfm-job-1-1"
    folder.mkdir()
    assert kind(folder, unified=unified).remove()
    assert not folder.exists()
    assert kind(folder, unified=unified).remove()


V1 = "31 23 0:27 / {point}/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
V2 = "30 23 0:26 / {point}/unified rw - cgroup2 cgroup2 rw\n"
MEMBER = {"": "/", "cpu": "/", "cpuacct": "/"}


def probed(tmp_path: Path, mounts: str, names: tuple[str, ...], monkeypatch) -> CpuGroup:
    """Probe a host on which a new cgroup has these files."""

    def mkdir(self: Path, *args: object, **kwargs: object) -> None:
        os.mkdir(self)
        for name in names:
            (self / name).write_text("")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    return cpu_cgroup.probe_in(parse_mounts(mounts.format(point=tmp_path)), MEMBER)


@pytest.fixture
def root(tmp_path):
    for name in ("cpu", "unified"):
        (tmp_path / name).mkdir()
    (tmp_path / "unified" / "cgroup.controllers").write_text("cpuset cpu memory\n")
    return tmp_path


def test_v2_is_preferred_where_it_has_the_controller(root, monkeypatch):
    found = probed(root, V1 + V2, ("cpu.weight", "cpu.shares", "cpu.idle"), monkeypatch)
    assert found.folder.parent == root / "unified"
    assert found.has_idle()


def test_a_hybrid_host_has_it_in_v1(root, monkeypatch):
    (root / "unified" / "cgroup.controllers").write_text("hugetlb\n")
    found = probed(root, V1 + V2, ("cpu.shares",), monkeypatch)
    assert found.folder.parent == root / "cpu"
    assert not found.has_idle()


def test_v2_with_processes_in_the_parent_has_none(root, monkeypatch):
    with pytest.raises(CpuCgroupError, match=r"cannot be enabled below .*, which has processes"):
        probed(root, V2, ("cgroup.procs",), monkeypatch)


def test_a_parent_with_processes_is_left_as_it_is(root, monkeypatch):
    """Linux would make it a threaded domain, below which no cgroup can have processes."""
    home = root / "unified"
    for name, text in (("cgroup.type", "domain\n"), ("cgroup.procs", "1\n")):
        (home / name).write_text(text)
    (home / "cgroup.subtree_control").write_text("")
    with pytest.raises(CpuCgroupError, match=r"cannot be enabled below .*, which has processes"):
        probed(root, V2, (), monkeypatch)
    assert (home / "cgroup.subtree_control").read_text() == ""


def test_a_probe_sees_the_idle_class_once_the_controller_is_enabled(root, monkeypatch):
    def enable(path: str, text: str) -> None:
        for folder in Path(path).parent.glob("tfm-probe-*"):
            for name in ("cpu.weight", "cpu.idle"):
                (folder / name).write_text("")

    monkeypatch.setattr(files, "write", enable)
    assert probed(root, V2, (), monkeypatch).has_idle()


def test_without_rights_there_is_none(root, monkeypatch):
    (root / "cpu").rmdir()
    with pytest.raises(CpuCgroupError, match=r"no cgroup can be made in .*/cpu: No such file"):
        probed(root, V1, (), monkeypatch)


def test_a_host_without_cgroups_has_none(root, monkeypatch):
    with pytest.raises(CpuCgroupError, match="no cgroup hierarchy with the cpu controller"):
        probed(root, "", (), monkeypatch)


def test_a_probe_leaves_nothing(monkeypatch):
    try:
        found = cpu_cgroup.probe()
    except CpuCgroupError:
        skip_without("cpu")
    assert not found.folder.exists()
    assert found.folder.parent.exists()
