# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The table of supported TensorFlows is whole, and the documents say what it does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from releases import PATCHES, RELEASES

ROOT = Path(__file__).parents[2]
*OLDER, NEWEST = (release.minor for release in RELEASES)
LISTED = rf"{re.escape(', '.join(OLDER))} (?:and|or) {re.escape(NEWEST)}"


def test_each_minor_version_is_in_the_table_once_oldest_first():
    numbers = [tuple(map(int, release.minor.split("."))) for release in RELEASES]
    assert numbers == sorted(set(numbers))


def test_each_patch_of_eigen_fits_a_tensorflow():
    assert {release.eigen_patch for release in RELEASES} == set(PATCHES.glob("eigen/*.patch"))


def test_the_readme_says_what_is_supported():
    text = " ".join((ROOT / "README.md").read_text().split())
    lists = re.findall(r"\b2\.\d+(?:, 2\.\d+)* (?:and|or) 2\.\d+", text)
    assert lists
    assert [each for each in lists if not re.fullmatch(LISTED, each)] == []
    candidates = [release.minor for release in RELEASES if release.is_candidate]
    assert re.findall(r"(2\.\d+) is a release candidate", text) == candidates


@pytest.mark.parametrize("name", ["pyproject.toml", "deploy/docker/Dockerfile"])
def test_what_is_installed_is_the_newest_that_is_released(name):
    found = re.findall(r"tensorflow-cpu==([\w.]+)", (ROOT / name).read_text())
    released = [release.version for release in RELEASES if not release.is_candidate]
    assert found == released[-1:]


@pytest.mark.slow
def test_a_build_for_another_tensorflow_names_those_of_the_table(tmp_path):
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").touch()
    (tmp_path / "tensorflow-2.99.0rc1.dist-info").mkdir()
    defined = (f"TF_MALLEABLE_TENSORFLOWS={tmp_path}", f"Python_EXECUTABLE={sys.executable}")
    cmake = [Path(sys.executable).with_name("cmake"), "-S", ROOT, "-B", tmp_path / "build"]
    cmake += [f"-D{each}" for each in defined]
    done = subprocess.run(cmake, capture_output=True, text=True, check=False)
    supported = ", ".join(release.minor for release in RELEASES)
    said = " ".join(done.stderr.split())
    assert f"tf_malleable supports TensorFlow {supported}, not 2.99.0rc1 (in {tmp_path}" in said
    assert done.returncode == 1
