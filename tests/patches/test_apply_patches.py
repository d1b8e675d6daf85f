# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tools/apply_patches.py: all or nothing, twice as once, and back."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import apply_patches
import pytest
from patch_series import read_hunks

from tests.support.trees import (
    DEVICE_BASE,
    PACKAGE,
    ROOT,
    SERIES,
    THREAD_POOL,
    TOOL,
    contents,
    make_tree,
    tool,
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "tensorflow-2.21.0")


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Check for one sentence with these words and exit status 2."""
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("apply_patches: ")
    for word in words:
        assert word in done.stderr


def test_everything_is_put_in(tree):
    done = tool(tree)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tree}: patched\n"
    assert "tf_malleable::MalleablePool<EigenEnvironment>" in (tree / THREAD_POOL).read_text()
    assert "tf_malleable::AddDevices" in (tree / DEVICE_BASE).read_text()
    for source in (*(ROOT / "cc/limits").rglob("*.*"), *(ROOT / "cc/capi").glob("tfm.*")):
        if source.suffix in (".h", ".cc"):
            there = tree / PACKAGE / source.relative_to(ROOT)
            assert there.read_bytes() == source.read_bytes()
    assert (tree / PACKAGE / "BUILD.bazel").is_file()


def test_the_eigen_patch_it_writes_applies_to_the_wheels_eigen(tree, tmp_path):
    from tf_malleable.runtime.tensorflow_install import find_tensorflow

    tool(tree)
    found = find_tensorflow()
    assert found is not None
    folder = Path("Eigen/src/ThreadPool")
    (tmp_path / folder).mkdir(parents=True)
    header = "NonBlockingThreadPool.h"
    original = found.directory / "include" / folder / header
    (tmp_path / folder / header).write_bytes(original.read_bytes())
    patch = tree / "third_party/xla/third_party/eigen3/tf_malleable.patch"
    subprocess.run(
        ["patch", "-p1", "--fuzz=0", "-i", str(patch)], cwd=tmp_path, check=True, timeout=60
    )
    assert "admission_" in (tmp_path / folder / header).read_text()
    ours = list((ROOT / "cc/limits/eigen").glob("*.h"))
    assert len(ours) > 1
    for path in ours:
        assert (tmp_path / folder / path.name).read_bytes() == path.read_bytes()


def test_a_second_time_nothing_is_left_to_do(tree):
    tool(tree)
    before = contents(tree)
    done = tool(tree)
    assert (done.returncode, done.stdout) == (0, f"{tree}: already patched\n")
    assert contents(tree) == before


def test_reverse_leaves_no_trace(tree):
    before = contents(tree)
    tool(tree)
    assert contents(tree) != before
    done = tool(tree, "--reverse")
    assert (done.returncode, done.stderr) == (0, "")
    assert contents(tree) == before
    assert tool(tree, "--reverse").stdout == f"{tree}: already unpatched\n"


def test_a_dry_run_changes_nothing(tree):
    before = contents(tree)
    done = tool(tree, "--dry-run", "--json")
    assert done.returncode == 0
    said = json.loads(done.stdout)
    assert said == {**said, "changed": True, "dry_run": True, "version": "2.21.0"}
    assert str(THREAD_POOL) in said["files"]
    assert contents(tree) == before


@pytest.mark.slow
def test_an_archive_is_unpacked_first(tree, tmp_path):
    archive = tmp_path / "v2.21.0.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tree, "tensorflow-2.21.0")
    refused(tool(archive), "exists")
    tree.rename(tmp_path / "away")
    assert tool(archive, "--dry-run").stdout == f"{tree}: would be patched\n"
    assert not tree.exists()
    done = tool(archive)
    assert (done.returncode, done.stderr) == (0, "")
    assert "tf_malleable" in (tree / THREAD_POOL).read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["away", "tensorflow-2.21.0", archive.name]


def test_a_python_without_filters_for_archives_unpacks_them(tree, tmp_path, monkeypatch):
    archive = tmp_path / "v2.21.0.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tree, "tensorflow-2.21.0")
    before = contents(tree)
    shutil.rmtree(tree)
    with_filters = tarfile.TarFile.extractall

    # As in Debian 12's Python 3.11.2.
    def extractall(self, path=".", members=None, *, numeric_owner=False):
        with_filters(self, path, members, numeric_owner=numeric_owner)

    monkeypatch.setattr(tarfile.TarFile, "extractall", extractall)
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    assert apply_patches.unpack(archive) == tree
    assert contents(tree) == before


@pytest.mark.parametrize("name", ["/tensorflow/x", "tensorflow/../../x", "../x"])
def test_an_archive_that_reaches_out_of_its_folder_is_refused(tmp_path, name):
    archive = tmp_path / "v2.21.0.tar"
    with tarfile.open(archive, "w") as tar:
        tar.addfile(tarfile.TarInfo("tensorflow/tf_version.bzl"))
        tar.addfile(tarfile.TarInfo(name))
    refused(tool(archive), repr(name), "names must be relative")
    assert os.listdir(tmp_path) == [archive.name]


def test_an_archive_of_another_version_leaves_nothing(tmp_path):
    other = make_tree(tmp_path / "tensorflow-2.30.0", version="2.30.0")
    archive = tmp_path / "v2.30.0.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(other, "tensorflow-2.30.0")
    other.rename(tmp_path / "away")
    refused(tool(archive), "TensorFlow 2.30.0", "2.21.0")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["away", archive.name]


def test_what_is_no_archive_is_refused(tmp_path):
    file = tmp_path / "v2.21.0.tar.gz"
    file.write_bytes(b"not one")
    refused(tool(file), "not a tar archive")
    refused(tool(tmp_path / "nowhere"), "there is no")
    assert os.listdir(tmp_path) == [file.name]


def test_another_version_is_refused(tmp_path):
    tree = make_tree(tmp_path / "sources", version="2.20.0")
    before = contents(tree)
    refused(tool(tree), "no patches for TensorFlow 2.20.0", "only for 2.21.0, 2.22.0")
    assert contents(tree) == before


def test_a_folder_of_something_else_is_refused(tmp_path):
    refused(tool(tmp_path), "not a TensorFlow source tree", "tensorflow/tf_version.bzl")


def test_a_tree_without_one_of_the_files_is_refused(tree):
    (tree / DEVICE_BASE).unlink()
    before = contents(tree)
    refused(tool(tree), str(DEVICE_BASE))
    assert contents(tree) == before


def test_lines_that_are_not_quite_the_expected_are_refused(tree):
    """Patch would apply it with fuzz."""
    text = (tree / DEVICE_BASE).read_text()
    (tree / DEVICE_BASE).write_text(text.replace("larger numThreads.", "larger num_threads."))
    before = contents(tree)
    refused(tool(tree), "03-device-base.patch does not fit", "TensorFlow 2.21.0")
    assert contents(tree) == before


@pytest.mark.parametrize("number", [0, 1, 4])
def test_a_half_patched_tree_is_refused(tree, number):
    patch = SERIES.patches[number]
    changed = read_hunks(patch)[0].file
    subprocess.run(["patch", "-p1", "--quiet", "-i", str(patch)], cwd=tree, check=True, timeout=60)
    before = contents(tree)
    refused(tool(tree), "partly patched", changed.name, "git checkout")
    assert contents(tree) == before


def test_another_state_of_the_patches_is_refused(tree):
    tool(tree)
    (tree / PACKAGE / "SERIES").write_text("of last year\n")
    before = contents(tree)
    for arguments in ((), ("--reverse",)):
        refused(tool(tree, *arguments), "a different version of these patches", "--reverse")
    assert contents(tree) == before


def git(tree: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *identity, *arguments], cwd=tree, check=True, timeout=60)


def test_a_dirty_checkout_is_refused(tree):
    git(tree, "init", "-q")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "TensorFlow")
    (tree / "tensorflow" / "mine.txt").write_text("no file of ours")
    with (tree / THREAD_POOL).open("a") as file:
        file.write("// A change of the user's.\n")
    before = contents(tree)
    refused(tool(tree), "uncommitted changes", str(THREAD_POOL), "stash")
    assert contents(tree) == before
    git(tree, "checkout", str(THREAD_POOL))
    assert tool(tree).returncode == 0


def test_without_patch_it_says_what_to_install(tree, tmp_path):
    before = contents(tree)
    refused(tool(tree, env={"PATH": str(tmp_path)}), "'patch' is missing", "apt-get install patch")
    assert contents(tree) == before


def test_a_full_disk_leaves_the_tree_as_it_was(tree):
    before = contents(tree)

    def no_room() -> None:
        # The largest of our own files does not fit.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))

    done = tool(tree, preexec_fn=no_room)
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert contents(tree) == before
    assert tool(tree).returncode == 0


# Kills the tool at the nth change it makes to the tree.
KILLED = """
import os, pathlib, runpy, signal, sys
left = int(sys.argv.pop(1))
def counted(function):
    def change(*arguments, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return change
for name in ("write_text", "replace", "unlink"):
    setattr(pathlib.Path, name, counted(getattr(pathlib.Path, name)))
sys.argv[0] = sys.argv[1]
del sys.argv[1]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def killed(changes: int, temporary: Path, *arguments: object) -> bool:
    """Run the tool until it has made so many changes; False if it makes no more."""
    command = [sys.executable, "-c", KILLED, str(changes), str(TOOL), *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(TOOL.parent)}  # runpy's programs lack their own folder.
    env["TMPDIR"] = str(temporary)  # Who is killed leaves it there.
    done = subprocess.run(command, env=env, capture_output=True, check=False, timeout=60)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("--reverse",)])
def test_one_that_is_killed_is_finished_or_found_out(tree, arguments, tmp_path_factory):
    original = contents(tree)
    tool(tree)
    patched = contents(tree)
    start, aim = (patched, original) if arguments else (original, patched)
    temporary = tmp_path_factory.mktemp("temporary")
    changes, found_out = 0, 0
    while True:
        shutil.rmtree(tree)
        for name, content in start.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes(content)
        if not killed(changes, temporary, tree, *arguments):
            break
        done = tool(tree, *arguments)
        if done.returncode == 0:
            assert contents(tree) == aim, changes
        else:
            refused(done, "partly patched")
            found_out += 1
        changes += 1
    assert changes > 8
    assert found_out >= 4
