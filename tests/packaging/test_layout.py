# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The house rules that no linter has: small folders, one name a type, light imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = sorted(ROOT.glob("python/**/*.py"))
TESTS = sorted(ROOT.glob("tests/**/*.py"))
MOST_MODULES = 14


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def test_no_folder_is_a_drawer():
    """A reader finds a file among a dozen names, not among forty."""
    sizes = defaultdict(int)
    for path in PACKAGE:
        sizes[str(path.parent.relative_to(ROOT / "python"))] += path.name != "__init__.py"
    assert len(sizes) > 20
    assert {folder: size for folder, size in sizes.items() if size > MOST_MODULES} == {}


def test_no_two_public_types_share_a_name():
    places = defaultdict(list)
    for path in PACKAGE:
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert len(places) > 100
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def edits_of_the_path(text: str) -> bool:
    """Return whether a program writes to sys.path, or a string in it does so for a child."""
    return any(
        (isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.path")
        or (isinstance(node, ast.Constant) and "sys.path" in str(node.value))
        for node in ast.walk(ast.parse(text))
    )


@pytest.mark.parametrize(
    ("program", "edits"),
    [
        ("import sys\nsys.path.insert(0, 'x')", True),
        ("run('import sys; sys.path[:0] = [1]')", True),
        ("run(f'import sys; sys.path.insert({1})')", True),
        ("import os\nos.path.join('a')", False),
    ],
)
def test_edits_are_found(program, edits):
    assert edits_of_the_path(program) == edits


@pytest.mark.slow
def test_no_test_edits_sys_path():
    """tests.support and the tools are found by pytest's `pythonpath`; children get PYTHONPATH."""
    # The zygote starts scripts, and so does what Python does with their folder.
    others = [
        path for path in TESTS if path not in (Path(__file__), ROOT / "tests/support/zygote.py")
    ]
    assert len(others) > 100
    assert [path for path in others if edits_of_the_path(path.read_text())] == []


def test_importing_the_package_loads_the_standard_library_only():
    """In somebody's training it must bring no other version of anything. See pyproject.toml."""
    program = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import tf_malleable\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "new -= set(sys.stdlib_module_names)\n"
        # The standard library's own, under a name that each platform has its own of.
        "print(*sorted(name for name in new if not name.startswith('_sysconfigdata_')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert set(done.stdout.split()) - {"threadpoolctl"} == {"tf_malleable"}
