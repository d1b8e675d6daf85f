# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Bazel's own patching, stricter than GNU patch, makes the same of our patches.

It ends the changes of a file at a ``diff --git`` line only, and takes no hunk at another line.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from patch_series import EIGEN_PATCH, EIGEN_THREAD_POOL, added_files

from tests.support.ctx_patch import apply_by_bazel
from tests.support.trees import SERIES, contents, make_tree, wheels_file


def check(tree: Path, patches: Sequence[Path]) -> None:
    """Check that Bazel makes of a tree what GNU patch makes of it."""
    by_bazel, by_patch = tree.parent / "by_bazel", tree.parent / "by_patch"
    assert apply_by_bazel(tree, patches, by_bazel) == ""
    shutil.copytree(tree, by_patch)
    for patch in patches:
        command = ["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch", "--quiet"]
        subprocess.run([*command, f"--input={patch}"], cwd=by_patch, check=True)
    assert contents(by_bazel) == contents(by_patch) != contents(tree)


def test_eigen_is_patched_as_tensorflow_asks_bazel_to(tmp_path):
    """In the wheel's Eigen, whose thread pool is changed and gets new headers beside it."""
    tree = tmp_path / "eigen"
    shutil.copytree(wheels_file(Path(EIGEN_THREAD_POOL)), tree / EIGEN_THREAD_POOL)
    patch = tmp_path / "tf_malleable.patch"
    patch.write_text(added_files(SERIES)[EIGEN_PATCH])
    check(tree, [patch])


def test_the_series_is_applied(tmp_path):
    """To the wheel's own headers, and to a stand-in for the files that no wheel has."""
    check(make_tree(tmp_path / "tensorflow"), SERIES.patches)
