# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The patches: small, exact where they can be checked, and the overlay's own bodies."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.trees import ROOT, SERIES, VERSION, patches

EIGEN = ROOT / "patches" / "eigen"
MOST_CHANGED_LINES = 150
XLA_HEADER = "third_party/xla/xla/backends/cpu/runtime/ynnpack/ynn_fusion_thunk.h"
# In each, only the body of a function changes.
HEADERS = {XLA_HEADER: "tf_malleable::MayBlock(", "tensorflow/core/util/mkl_util.h": "PlanKey()"}


def changed_lines(patch: Path, sign: str = "+-") -> list[str]:
    lines = patch.read_text().splitlines()
    return [line[1:] for line in lines if re.match(rf"[{sign}](?![+-]{{2}} )", line)]


def hooks(text: str) -> set[str]:
    """Return the calls of tf_malleable's functions, with their arguments, in C++ text."""
    found = set()
    for call in re.finditer(r"tf_malleable::([A-Z]\w+)\(", text):
        depth, end = 1, call.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        found.add(re.sub(r"\s+", "", text[call.start() : end]))
    return found


def test_every_patch_is_in_the_series_and_says_what_it_does():
    assert sorted(SERIES.glob("*.patch")) == sorted(patches())
    for patch in patches():
        head, _, _ = patch.read_text().partition("--- a/")
        title, blank, *why = head.splitlines()
        assert title.endswith(".")
        assert blank == ""
        assert any(why)


def test_little_is_changed():
    files = [*patches(), EIGEN / "tensorflow-2.20.patch"]
    assert sum(len(changed_lines(patch)) for patch in files) <= MOST_CHANGED_LINES


def test_no_layout_that_others_were_compiled_with_is_changed():
    """No header, but Eigen's pool, which nobody else derives from, and functions' bodies."""
    changed = {
        name
        for patch in patches()
        for name in re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(), re.MULTILINE)
    }
    assert changed
    assert {name for name in changed if name.endswith(".h")} == set(HEADERS)
    for patch in patches():
        assert not [line for line in changed_lines(patch, "+") if "virtual" in line]


@pytest.mark.parametrize("name", HEADERS)
def test_the_patch_of_a_header_fits_that_of_the_wheel(tmp_path, name):
    from tf_malleable.runtime.tensorflow_install import find_tensorflow

    found = find_tensorflow()
    assert found is not None
    header = tmp_path / name
    header.parent.mkdir(parents=True)
    include = found.directory / "include"
    header.write_bytes((include / name.removeprefix("third_party/xla/")).read_bytes())
    [patch] = [patch for patch in patches() if f"+++ b/{name}" in patch.read_text()]
    command = ["patch", "-p1", "--fuzz=0", "-i", str(patch)]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (said.returncode, said.stderr) == (0, "")
    assert "offset" not in said.stdout
    assert HEADERS[name] in header.read_text()


def test_the_hooks_have_the_bodies_of_the_overlays():
    overlay = hooks("".join(p.read_text() for p in (ROOT / "cc/overlay").glob("*.cc")))
    patched = hooks("\n".join("\n".join(changed_lines(p, "+")) for p in patches()))
    # The overlay asks functions it has to look up; TensorFlow's own code just calls them.
    different = {
        "tf_malleable::TensorFlowFunctions::Get()",
        "tf_malleable::ShardParallelism(max_parallelism,workers->AsEigenThreadPool(),deterministic)",
    }
    by_name = {call.partition("(")[0] for call in overlay}
    assert {call.partition("(")[0] for call in patched} - {"tf_malleable::RegisteredPoolOf"} == {
        name for name in by_name if "TensorFlowFunctions" not in name
    } | {
        "tf_malleable::PlannedThreadCount",
        "tf_malleable::MayBlock",
        "tf_malleable::PlanKey",
    }
    assert overlay - patched <= different


def test_the_table_of_hooks_has_them_all():
    table = (ROOT / "patches" / "README.md").read_text()
    exports = (ROOT / "cc/overlay/exports.lds").read_text()
    for function in re.findall(r'"(?:\w+::)+(~?\w+)\(', exports):
        assert function in table, function
    for patch in patches():
        assert patch.name in table
    assert VERSION in table
