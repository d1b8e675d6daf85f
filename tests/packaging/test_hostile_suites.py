# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Each daemon has tests with four users of whom one is hostile: `pytest -m hostile` runs all."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
DAEMONS = ("controller", "elastic", "power", "tier", "web")
WHAT = {"read", "changed", "starved", "stopped"}


def shown_of(path: Path) -> set[str]:
    """Return what the tests of a file say by `pytest.mark.hostile(...)`."""
    return {
        str(argument.value)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.hostile"
        for argument in node.args
        if isinstance(argument, ast.Constant)
    }


@pytest.mark.parametrize("daemon", DAEMONS)
def test_nothing_of_the_others_is_read_changed_starved_or_stopped(daemon):
    shown = set().union(*(shown_of(path) for path in (TESTS / daemon).rglob("test_*.py")))
    assert shown == WHAT
