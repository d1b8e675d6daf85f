# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The table of supported TensorFlows is whole, and the documents say what it does."""

from __future__ import annotations

import re
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
