# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which TensorFlow is supported, and how its Eigen is patched, is the same wherever it is said."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from make_dist import TENSORFLOWS
from patch_series import eigen_patch

ROOT = Path(__file__).parents[2]
MINORS = [version.rpartition(".")[0] for version in TENSORFLOWS]
CMAKE = (ROOT / "CMakeLists.txt").read_text()
BAZEL = (ROOT / "third_party/tensorflow/wheel.bzl").read_text()
*OLDER, NEWEST = MINORS
LISTED = rf"{re.escape(', '.join(OLDER))} (?:and|or) {re.escape(NEWEST)}"


def found(pattern: str, text: str) -> re.Match[str]:
    match = re.search(pattern, text, re.DOTALL)
    assert match is not None, pattern
    return match


def with_cmake() -> dict[str, str]:
    """Return the patch that CMakeLists.txt chooses for each TensorFlow it takes."""
    minors = found(r'if\(NOT version MATCHES "\^\(2\\\\\.\(([0-9|]+)\)\)', CMAKE)[1].split("|")
    branch = r"(?:if\(minor STREQUAL ([\d.]+)\)|else\(\))\s+set\(eigen_patch \S+/([^/\s]+\.patch)\)"
    chosen = dict(re.findall(branch, CMAKE))
    return {f"2.{minor}": chosen.get(f"2.{minor}", chosen[""]) for minor in minors}


def with_bazel() -> dict[str, str]:
    """Return the patch that wheel.bzl chooses for each TensorFlow it takes."""
    chosen = ast.literal_eval(found(r"_EIGEN_PATCHES = (\{.*?\})", BAZEL)[1])
    return {minor: f"tensorflow-{patch}.patch" for minor, patch in chosen.items()}


def test_each_build_takes_the_same_tensorflows_with_the_same_patches():
    expected = {
        minor: eigen_patch(version).name for minor, version in zip(MINORS, TENSORFLOWS, strict=True)
    }
    assert with_cmake() == expected
    assert with_bazel() == expected
    patches = {path.name for path in (ROOT / "patches/eigen").glob("*.patch")}
    assert set(expected.values()) == patches


@pytest.mark.parametrize("name", ["CMakeLists.txt", "README.md"])
def test_what_is_supported_is_said_everywhere(name):
    text = " ".join((ROOT / name).read_text().split())
    lists = re.findall(r"\b2\.\d+(?:, 2\.\d+)* (?:and|or) 2\.\d+", text)
    assert lists
    assert [each for each in lists if not re.fullmatch(LISTED, each)] == []


@pytest.mark.parametrize("name", ["pyproject.toml", "deploy/docker/Dockerfile"])
def test_what_is_installed_is_the_newest(name):
    version = found(r"tensorflow-cpu==([\d.]+)", (ROOT / name).read_text())[1]
    assert version == TENSORFLOWS[-1]
