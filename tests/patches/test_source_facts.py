# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tools/apply_patches.py --check: which file is not TensorFlow's own, and whether it matters."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from source_facts import line_hash, record

from tests.support.trees import DEVICE_BASE, SERIES, contents, make_tree, tool

MKL = Path("tensorflow/core/util/mkl_util.h")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "tensorflow-2.21.0")


def checked(tree: Path) -> tuple[int, dict[str, str]]:
    """Return the exit status, and what is said of each file."""
    before = contents(tree)
    done = tool(tree, "--check")
    assert done.stderr == ""
    assert contents(tree) == before
    said = [line.partition(": ") for line in done.stdout.splitlines()]
    return done.returncode, {file: words for file, _, words in said}


def test_a_file_of_the_wheel_is_the_recorded_one(tree):
    status, said = checked(tree)
    assert status == 0
    assert said[str(MKL)] == "the recorded file"
    assert said[str(DEVICE_BASE)] == "another file, with all lines that the patches expect"
    assert set(said) == {str(file) for file in SERIES.files}


def test_lines_that_have_moved_are_found(tree):
    text = (tree / MKL).read_text()
    (tree / MKL).write_text("// One.\n// Two.\n" + text)
    status, said = checked(tree)
    assert status == 0
    assert said[str(MKL)].endswith("all lines that the patches expect, moved by 2")
    assert tool(tree).returncode == 0


def test_a_line_that_differs_is_named(tree):
    lines = (tree / MKL).read_text().split("\n")
    lines[46] = '#include "tsl/util/onednn_threadpool.h"'
    (tree / MKL).write_text("\n".join(lines))
    status, said = checked(tree)
    assert status == 2
    assert said[str(MKL)] == "lacks what the patches expect in lines 47"
    assert tool(tree).returncode == 2


def test_a_missing_file_is_named(tree):
    (tree / DEVICE_BASE).unlink()
    status, said = checked(tree)
    assert (status, said[str(DEVICE_BASE)]) == (2, "missing")


def test_a_recipe_that_the_tree_does_not_have_is_named(tree):
    (tree / ".bazelrc").write_text("build:opt --copt=-O3\n")
    done = tool(tree, "--check")
    assert done.returncode == 2
    assert ".bazelrc: build:release_cpu_linux" in done.stdout
    assert "is missing, which the build needs" in done.stdout


def test_as_json(tree):
    done = tool(tree, "--check", "--json")
    said = json.loads(done.stdout)
    assert done.returncode == 0
    assert said["tree"] == str(tree)
    assert said["recipe_lacks"] == []
    assert {"file": str(MKL), "state": "same", "moved": [], "lacking": []} in said["files"]


def test_a_patched_tree_is_refused(tree):
    tool(tree)
    done = tool(tree, "--check")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is patched" in done.stderr


def test_checking_and_changing_do_not_go_together(tree):
    for option in ("--reverse", "--dry-run"):
        done = tool(tree, "--check", option)
        assert done.returncode == 2
        assert "--check changes nothing" in done.stderr


def test_what_is_recorded_is_no_text_of_tensorflows(tree):
    recorded = record(tree, SERIES)
    file = recorded["files"][str(MKL)]
    content = (tree / MKL).read_bytes()
    assert file["sha256"] == hashlib.sha256(content).hexdigest()
    lines = content.decode().splitlines()
    assert file["lines"] == len(lines)
    assert file["context"] == {
        number: line_hash(lines[int(number) - 1]) for number in ("47", "2126", "2127")
    }
