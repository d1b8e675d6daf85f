# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How many CPUs there are, from what a cgroup's files say: right, wrong and gone."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_malleable.linux.cgroups import cgroup, effective_cpus
from tf_malleable.linux.cgroups.container import in_container
from tf_malleable.linux.cgroups.effective_cpus import EffectiveCpus, Warnings
from tf_malleable.linux.cgroups.quota_files import quota_files

MOUNTS_V2 = "30 23 0:26 / {point} rw,nosuid - cgroup2 cgroup2 rw\n"
MOUNTS_V1 = (
    "31 23 0:27 /docker/abc {point}/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 23 0:28 /docker/abc {point}/cpuset rw - cgroup cgroup rw,cpuset\n"
)


class Tree:
    """A process and its cgroups, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.own = folder / "self"
        self.groups = folder / "cgroup"
        self.own.mkdir()
        self.warnings: list[str] = []
        self.cpus = EffectiveCpus(Warnings(self.warnings.append), self.own)

    def put(self, name: str, text: str) -> None:
        file = self.groups / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def remove(self, name: str) -> None:
        (self.groups / name).unlink()

    def belongs(self, cgroups: str, mounts: str = MOUNTS_V2) -> None:
        (self.own / "mountinfo").write_text(mounts.format(point=self.groups))
        (self.own / "cgroup").write_text(cgroups)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(64))
    return Tree(tmp_path)


def test_without_cgroups_it_is_the_affinity(tree):
    tree.belongs("", "")
    assert tree.cpus.read() == 64


def test_the_least_of_all_visible_parents_counts(tree):
    tree.belongs("0::/a/b/c\n")
    for name, quota in (("a", "max"), ("a/b", "300000"), ("a/b/c", "800000")):
        tree.put(f"{name}/cpu.max", f"{quota} 100000\n")
    assert tree.cpus.read() == 3
    tree.put("a/cpu.max", "150000 100000\n")
    assert tree.cpus.read() == 1.5
    tree.put("a/b/c/cpuset.cpus.effective", "5\n")
    assert tree.cpus.read() == 1


def test_v1_has_a_hierarchy_for_each_controller(tree):
    tree.belongs("4:cpuset:/docker/abc\n3:cpu,cpuacct:/docker/abc/x\n", MOUNTS_V1)
    tree.put("cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n")
    tree.put("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n")
    assert tree.cpus.read() == 64
    tree.put("cpuset/cpuset.effective_cpus", "0-6,9\n")
    assert tree.cpus.read() == 8
    tree.put("cpu,cpuacct/cpu.cfs_quota_us", "250000\n")
    tree.put("cpu,cpuacct/cpu.cfs_period_us", "50000\n")
    assert tree.cpus.read() == 5


def test_another_cgroup_is_followed(tree):
    tree.belongs("0::/a\n")
    tree.put("a/cpu.max", "200000 100000\n")
    tree.put("b/cpu.max", "700000 100000\n")
    assert tree.cpus.read() == 2
    tree.belongs("0::/b\n")
    assert tree.cpus.read() == 7


@pytest.mark.parametrize(
    ("root", "path", "names"),
    [
        ("/", "/", [""]),
        ("/", "/a/b", ["a/b", "a", ""]),
        ("/docker/abc", "/docker/abc/x", ["x", ""]),
        ("/docker/abc", "/docker/abcdef", [""]),
        ("/docker/abc", "/elsewhere", [""]),
        ("/..", "/../other", ["other", ""]),
        ("/../..", "/", [""]),
        ("/", "/../elsewhere", [""]),
    ],
)
def test_what_is_seen_of_a_cgroup_depends_on_the_mount(root, path, names):
    mount = cgroup.Mount(root, Path("/sys/fs/cgroup"), frozenset(), True)
    assert cgroup.folders(mount, path) == tuple(mount.point / name for name in names)


V2_LINE = "30 23 0:26 {root} /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    ("cgroups", "mounts"),
    [
        ("0::/a/b\n", V2_LINE.format(root="/")),
        ("0::/\n", V2_LINE.format(root="/")),
        ("0::/docker/abc/x\n", V2_LINE.format(root="/docker/abc")),
        ("0::/docker/abcdef\n", V2_LINE.format(root="/docker/abc")),
        ("0::/../other\n", V2_LINE.format(root="/..")),
        ("0::/../elsewhere\n", V2_LINE.format(root="/")),
        ("0::/a\\134b:c\n", V2_LINE.format(root="/")),
        ("4:cpuset:/a\n3:cpu,cpuacct:/docker/abc/x\n", MOUNTS_V1.format(point="/cgroup\\040s")),
        ("3:cpu,cpuacct:/docker/abc/x\n0::/y\n", MOUNTS_V1 + V2_LINE.format(root="/")),
        ("3:memory:/x\n", MOUNTS_V1),
        ("0::/x\n", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"),
        ("", ""),
    ],
)
def test_the_files_of_quotas_are_those_that_limits_follow(tmp_path, cgroups, mounts):
    (tmp_path / "cgroup").write_text(cgroups)
    (tmp_path / "mountinfo").write_text(mounts)
    sources = cgroup.sources(cgroup.parse_mounts(mounts), cgroup.parse_memberships(cgroups))
    expected = [str(each.paths[0]) for each in sources if not each.shows_in_affinity]
    assert quota_files(str(tmp_path)) == expected
    assert quota_files(str(tmp_path / "none")) == []


def test_a_path_outside_of_the_mount_is_the_mount(tree):
    tree.belongs("0::/../elsewhere\n", MOUNTS_V2.replace("/ {point}", "/docker/abc {point}"))
    tree.put("cpu.max", "400000 100000\n")
    assert tree.cpus.read() == 4


def test_both_versions_at_once(tree):
    tree.belongs(
        "4:cpuset:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/x\n",
        MOUNTS_V1 + MOUNTS_V2.replace("{point}", "{point}/unified"),
    )
    tree.put("cpu,cpuacct/cpu.cfs_quota_us", "900000\n")
    tree.put("cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    assert tree.cpus.read() == 9
    tree.put("unified/x/cpu.max", "300000 100000\n")
    assert tree.cpus.read() == 3


def test_a_mount_and_a_controller_can_come_later(tree, monkeypatch):
    tree.belongs("0::/a\n", "")
    tree.put("a/cpu.max", "300000 100000\n")
    assert tree.cpus.read() == 64
    tree.belongs("0::/a\n")
    monkeypatch.setattr(
        effective_cpus.time, "monotonic", lambda now=effective_cpus.time.monotonic: now() + 60
    )
    assert tree.cpus.read() == 3
    tree.put("a/cpuset.cpus.effective", "0-1\n")
    assert tree.cpus.read() == 2
    assert tree.warnings == []


BAD = ["", "0 100000", "-5 100000", "100000 0", "many 100000", "1 2 3", "9" * 400 + " 1"]


@pytest.mark.parametrize("text", BAD)
def test_what_makes_no_sense_keeps_the_last_value_with_one_warning(tree, text):
    tree.belongs("0::/a\n")
    tree.put("a/cpu.max", "300000 100000\n")
    assert tree.cpus.read() == 3
    tree.put("a/cpu.max", text)
    assert [tree.cpus.read() for _ in range(3)] == [3, 3, 3]
    assert len(tree.warnings) == 1
    assert f"{tree.groups}/a/cpu.max is ignored: " in tree.warnings[0]
    assert len(tree.warnings[0]) < 500
    tree.put("a/cpu.max", "500000 100000\n")
    assert tree.cpus.read() == 5
    tree.put("a/cpu.max", text)
    assert [tree.cpus.read() for _ in range(3)] == [5, 5, 5]
    assert len(tree.warnings) == 1


def test_a_file_that_vanishes_or_cannot_be_read_keeps_its_last_value(tree):
    tree.belongs("0::/a\n")
    tree.put("a/cpu.max", "300000 100000\n")
    assert tree.cpus.read() == 3
    tree.remove("a/cpu.max")
    assert [tree.cpus.read() for _ in range(3)] == [3, 3, 3]
    (tree.groups / "a/cpu.max").mkdir()
    assert [tree.cpus.read() for _ in range(3)] == [3, 3, 3]
    assert len(tree.warnings) == 1
    (tree.groups / "a/cpu.max").rmdir()
    tree.put("a/cpu.max", "700000 100000\n")
    assert tree.cpus.read() == 7


@pytest.mark.parametrize("text", ["rubbish\n", "0:\n", "0::a\n", "\0\n"])
def test_a_membership_that_makes_no_sense_keeps_the_last_one(tree, text):
    tree.belongs("0::/a\n")
    tree.put("a/cpu.max", "300000 100000\n")
    assert tree.cpus.read() == 3
    tree.belongs(text)
    assert [tree.cpus.read() for _ in range(3)] == [3, 3, 3]
    assert len(tree.warnings) == 1
    tree.belongs("0::/a\n")
    tree.put("a/cpu.max", "400000 100000\n")
    assert tree.cpus.read() == 4


def test_where_nothing_can_be_known_it_is_the_affinity_with_one_warning(tree):
    assert [tree.cpus.read() for _ in range(3)] == [64, 64, 64]
    assert len(tree.warnings) == 1


def test_a_glance_tells_whether_there_is_anything_new(tree, monkeypatch):
    assert tree.cpus.may_have_changed()
    tree.belongs("0::/a\n")
    tree.put("a/cpu.max", "300000 100000\n")
    tree.cpus.read()
    assert not tree.cpus.may_have_changed()
    tree.put("a/cpu.max", "200000 100000\n")
    assert tree.cpus.may_have_changed()
    assert tree.cpus.read() == 2
    assert not tree.cpus.may_have_changed()
    tree.belongs("0::/b\n")
    assert tree.cpus.may_have_changed()
    tree.cpus.read()
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(3))
    assert tree.cpus.may_have_changed()
    assert tree.cpus.read() == 3
    assert not tree.cpus.may_have_changed()
    now = effective_cpus.time.monotonic()
    monkeypatch.setattr(effective_cpus.time, "monotonic", lambda: now + 60)
    assert tree.cpus.may_have_changed()


def test_descriptors_that_the_program_has_taken_are_left_to_it(tree, tmp_path):
    tree.belongs("0::/a\n")
    tree.put("a/cpu.max", "300000 100000\n")
    assert tree.cpus.read() == 3
    ours = [
        int(name)
        for name in os.listdir("/proc/self/fd")
        if os.path.realpath(f"/proc/self/fd/{name}").startswith(str(tmp_path))
    ]
    assert len(ours) == 2
    (tmp_path / "program").write_text("100000 100000\n")
    file = os.open(tmp_path / "program", os.O_RDONLY)
    for descriptor in ours:
        os.dup2(file, descriptor)
    assert tree.cpus.read() == 3
    tree.cpus.close()
    for descriptor in (file, *ours):
        os.close(descriptor)  # Still open, that is.


FILES = {
    "a/cpu.max": cgroup.parse_cpu_max,
    "a/b/cpu.max": cgroup.parse_cpu_max,
    "a/b/cpuset.cpus.effective": cgroup.parse_size,
}
GOOD = ["max 100000", "150000 100000", "50000 100000", "0-3", "7", "", "0-1,6"]
STATES = [None, "folder", *GOOD, *BAD, "max", "-1", "0", "0-99999999", "\0", "٣ ٣"]


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(list(FILES)), st.sampled_from(STATES) | st.text())))
def test_whatever_happens_to_the_files_the_last_good_values_count(changes):
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder))
        tree.belongs("0::/a/b\n")
        last: dict[str, float | None] = {}
        affinity = float(len(os.sched_getaffinity(0)))
        for name, state in changes:
            file = tree.groups / name
            shutil.rmtree(file, ignore_errors=True)
            if state is None:
                file.unlink(missing_ok=True)
            elif state == "folder":
                file.unlink(missing_ok=True)
                file.mkdir(parents=True)
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(state.encode(errors="replace"))
                with suppress(ValueError):
                    last[name] = FILES[name](os.fsdecode(state.encode(errors="replace")))
            known = [cpus for cpus in last.values() if cpus is not None]
            assert tree.cpus.read() == min([affinity, *known])
            tree.cpus.read()
        assert len(tree.warnings) == len(set(tree.warnings)) <= len(FILES)
        tree.cpus.close()


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_a_number_of_cpus_none_or_refused(quota, period):
    for parse, arguments in (
        (cgroup.parse_cpu_max, (quota,)),
        (cgroup.parse_cfs, (quota, period)),
        (cgroup.parse_size, (quota,)),
    ):
        try:
            cpus = parse(*arguments)
        except ValueError:
            continue
        assert cpus is None or cpus > 0


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_is_some_mounts_and_memberships_or_refused(mounts, memberships):
    try:
        paths = cgroup.parse_memberships(memberships)
    except ValueError:
        paths = {"": "/a"}
    cgroup.sources(cgroup.parse_mounts(mounts), paths)
    cgroup.sources(cgroup.parse_mounts(f"1 2 3 {mounts} - cgroup2 {memberships}"), paths)


@pytest.mark.parametrize("variable", ["container", "KUBERNETES_SERVICE_HOST"])
def test_a_container_is_known_by_its_files_or_variables(variable, monkeypatch):
    monkeypatch.setattr(os.path, "exists", lambda path: False)
    monkeypatch.delenv("container", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert not in_container()
    monkeypatch.setenv(variable, "something")
    assert in_container()
    monkeypatch.delenv(variable)
    monkeypatch.setattr(os.path, "exists", lambda path: path == "/.dockerenv")
    assert in_container()
