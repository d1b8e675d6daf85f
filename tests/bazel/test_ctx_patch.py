# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Bazel's own patching, stricter than GNU patch, makes the same of our patches."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from patch_series import EIGEN_PATCH, EIGEN_THREAD_POOL, XLA, added_files, find_series

from tests.support.ctx_patch import apply_by_bazel
from tests.support.trees import contents
from tf_malleable.runtime.tensorflow_install import TensorFlow, find_tensorflow

Patches = dict[str, str]


@pytest.fixture(scope="module")
def wheel() -> TensorFlow:
    found = find_tensorflow()
    assert found is not None
    return found


@pytest.fixture(scope="module")
def sections(wheel: TensorFlow) -> Patches:
    """Return what the series changes, file by file, each with the words above it."""
    found = {}
    for patch in find_series(wheel.version).patches:
        words, *parts = re.split(r"^(?=--- a/)", patch.read_text(), flags=re.MULTILINE)
        for part in parts:
            found[part.split()[1].removeprefix("a/")] = words + part
    return found


def check(tree: Path, texts: list[str]) -> None:
    """Check that Bazel makes of a tree what GNU patch makes of it."""
    folder = tree.parent
    patches = [folder / f"{number}.patch" for number in range(len(texts))]
    for patch, text in zip(patches, texts, strict=True):
        patch.write_text(text)
    assert apply_by_bazel(tree, patches, folder / "by_bazel") == ""
    expected = folder / "by_patch"
    shutil.copytree(tree, expected)
    for patch in patches:
        command = ["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch", "--quiet"]
        subprocess.run([*command, f"--input={patch}"], cwd=expected, check=True)
    assert contents(folder / "by_bazel") == contents(expected) != contents(tree)


def test_eigen_is_patched_as_tensorflow_asks_bazel_to(wheel, tmp_path):
    """In the wheel's Eigen, whose thread pool is changed and gets new headers beside it."""
    tree = tmp_path / "eigen"
    shutil.copytree(wheel.directory / "include" / EIGEN_THREAD_POOL, tree / EIGEN_THREAD_POOL)
    check(tree, [added_files(find_series(wheel.version))[EIGEN_PATCH]])


def test_the_headers_of_the_wheel_are_patched(wheel, sections, tmp_path):
    tree = tmp_path / "tensorflow"
    there = []
    for name, text in sections.items():
        header = wheel.directory / "include" / name.removeprefix(f"{XLA}/")
        if header.is_file():
            (tree / name).parent.mkdir(parents=True)
            shutil.copy2(header, tree / name)
            there.append(text)
    assert {path.name for path in tree.rglob("*.h")} >= {"mkl_util.h", "ynn_fusion_thunk.h"}
    check(tree, there)


def test_files_with_the_expected_lines_where_the_series_says_are_patched(sections, tmp_path):
    """A stand-in for those files that no wheel has: Bazel 7 takes no hunk at another line."""
    tree = tmp_path / "tensorflow"
    for name, text in sections.items():
        expected: dict[int, str] = {}
        for start, hunk in re.findall(r"^@@ -(\d+).*\n((?:[ +-].*\n)+)", text, re.MULTILINE):
            old = [line[1:] for line in hunk.splitlines() if line[0] != "+"]
            expected.update(enumerate(old, int(start)))
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        lines = (expected.get(number, f"// {number}") for number in range(1, max(expected) + 9))
        (tree / name).write_text("\n".join(lines) + "\n")
    check(tree, list(sections.values()))
