# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The patches: small, exact where they can be checked, and the overlay's own bodies."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest
from patch_series import PATCHES
from source_facts import FACTS, line_hash, read_facts

from tests.support.trees import ALL_SERIES, ROOT, SERIES, VERSION, make_tree, wheels_file
from tf_malleable.runtime.tensorflow_install import find_tensorflow

MOST_CHANGED_LINES = 160
# In each, only the body of a function changes.
HEADERS = {
    Path("third_party/xla/xla/backends/cpu/runtime/ynnpack/ynn_fusion_thunk.h"): (
        "bool ExecuteMayBlock() const final;"
    ),
    Path("tensorflow/core/util/mkl_util.h"): "tf_malleable::PlanKey()",
}

each_series = pytest.mark.parametrize("series", ALL_SERIES, ids=lambda series: series.version)


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


def test_every_patch_is_in_its_series_and_says_what_it_does():
    for series in ALL_SERIES:
        own = sorted(series.folder.glob("*.patch"))
        assert own == sorted(patch for patch in series.patches if patch.parent == series.folder)
    for patch in PATCHES.glob("tensorflow-*/*.patch"):
        head, _, _ = patch.read_text().partition("diff --git ")
        title, blank, *why = head.splitlines()
        assert title.endswith(".")
        assert blank == ""
        assert any(why)


@each_series
def test_little_is_changed(series):
    files = [*series.patches, series.eigen_patch]
    assert sum(len(changed_lines(patch)) for patch in files) <= MOST_CHANGED_LINES


@each_series
def test_no_layout_that_others_were_compiled_with_is_changed(series):
    """No header, but Eigen's pool, which nobody else derives from, and functions' bodies."""
    assert {file for file in series.files if file.suffix == ".h"} == set(HEADERS)
    for patch in series.patches:
        assert not [line for line in changed_lines(patch, "+") if "virtual" in line]


@each_series
def test_added_lines_are_in_tensorflows_style(series):
    added = [line for patch in series.patches for line in changed_lines(patch, "+")]
    assert [line for line in added if len(line) > 80] == []
    # The functions of others are not declared, their headers are included.
    assert [line for line in added if re.match(r"namespace (?!xla|tensorflow)", line)] == []


@each_series
def test_the_patches_expect_what_the_sources_have(series):
    """The hashes are of TensorFlow's own files, the lines are the patches'."""
    expected = {(hunk.file, line_hash(line)) for hunk in series.hunks for line in hunk.old}
    recorded = {
        (file, known)
        for file, facts in read_facts(series).files.items()
        for known in facts.context.values()
    }
    assert expected == recorded


@each_series
def test_each_change_is_made_where_the_sources_have_its_lines(series, tmp_path):
    """Elsewhere in the stand-in no line is one that a patch expects."""
    tree = make_tree(tmp_path, series.version, series)
    for patch in series.patches:
        command = ["patch", "-p1", "--fuzz=0", "-i", str(patch)]
        said = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=60)
        assert (said.returncode, said.stderr) == (0, "")
        if patch.parent == series.folder:
            assert "offset" not in said.stdout


def test_what_the_wheel_ships_of_the_files_is_what_was_recorded(tmp_path):
    found = find_tensorflow()
    assert found is not None
    facts = read_facts(SERIES).files
    assert {file for file, known in facts.items() if known.origin == "wheel"} == set(HEADERS)
    assert found.version == VERSION
    for file, changed in HEADERS.items():
        original = wheels_file(file).read_bytes()
        assert hashlib.sha256(original).hexdigest() == facts[file].sha256
        assert changed not in original.decode()
    tree = make_tree(tmp_path)
    for patch in SERIES.patches:
        subprocess.run(["patch", "-p1", "-s", "--fuzz=0", "-i", patch], cwd=tree, check=True)
    for file, changed in HEADERS.items():
        assert changed in (tree / file).read_text()


def test_the_release_has_the_lines_where_they_were_recorded():
    """Its library contains the numbers of the lines that log or check something."""
    found = find_tensorflow()
    assert found is not None
    library = found.directory / "libtensorflow_framework.so.2"
    files = json.loads((SERIES.folder / FACTS).read_text())["files"]
    symbols = {
        symbol: lines
        for file in files.values()
        for symbol, lines in file.get("release_lines", {}).items()
    }
    assert len(symbols) == 7
    for symbol, lines in symbols.items():
        command = ["objdump", "-d", "--no-show-raw-insn", f"--disassemble={symbol}", str(library)]
        code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert re.search(rf"\$0x{lines['release']:x},%edx", code), symbol
    moved = {
        file
        for file, known in files.items()
        for lines in known.get("release_lines", {}).values()
        if lines["recorded"] != lines["release"]
    }
    assert moved == {"tensorflow/core/framework/op_kernel.cc"}


def test_the_hooks_have_the_bodies_of_the_overlays():
    overlay = hooks("".join(p.read_text() for p in (ROOT / "cc/overlay").glob("*.cc")))
    patched = hooks("\n".join("\n".join(changed_lines(p, "+")) for p in SERIES.patches))
    # The overlay asks functions it has to look up; TensorFlow's own code just calls them.
    different = {
        "tf_malleable::TensorFlowFunctions::Get()",
        "tf_malleable::SchedulableCpus(tf_malleable::TensorFlowFunctions::Get().schedulable_cpus())",
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
    for series in ALL_SERIES:
        assert series.version in table
        for patch in series.patches:
            assert patch.name in table


@pytest.mark.slow
def test_the_patched_header_of_onednns_plans_compiles(tmp_path):
    """With the wheel's own headers of TensorFlow and oneDNN, and none of ours but op_width.h."""
    [name] = [name for name in HEADERS if name.name == "mkl_util.h"]
    tree = make_tree(tmp_path / "tree")
    [patch] = [patch for patch in SERIES.patches if "mkl_util.h" in patch.read_text()]
    subprocess.run(["patch", "-p1", "-s", "--fuzz=0", "-i", patch], cwd=tree, check=True)
    ours = tmp_path / "ours" / "cc" / "limits" / "op_width.h"
    ours.parent.mkdir(parents=True)
    ours.write_text((ROOT / "cc/limits/op_width.h").read_text())
    source = tmp_path / "key.cc"
    use = "std::string Key() { return tensorflow::FactoryKeyCreator().GetKey(); }"
    source.write_text(f'#include "{name}"\n{use}\n')
    include = wheels_file(Path("."))
    folders = [tree, tmp_path / "ours", include, include / "external/onednn/include"]
    command = ["g++", "-std=c++17", "-fsyntax-only", "-DINTEL_MKL", "-DENABLE_ONEDNN_V3", "-w"]
    command += [f"-isystem{folder}" for folder in folders]
    said = subprocess.run([*command, source], capture_output=True, text=True, timeout=300)
    assert said.returncode == 0, said.stderr
