# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The licences of what is compiled into the wheels."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

NOTICE = Path(__file__).parents[2] / "NOTICE"


def licence_files(package: str) -> dict[str, str]:
    files = metadata.files(package) or []
    return {each.name: each.read_text() for each in files if "licenses" in each.parts}


def test_the_wheel_has_pybind11s_licence_and_tells_those_of_the_others():
    notice = licence_files("tf_malleable")["NOTICE"]
    assert notice == NOTICE.read_text()
    assert licence_files("pybind11")["LICENSE"] in notice
    for name in ("TensorFlow", "Abseil", "Eigen", "Mozilla Public License 2.0"):
        assert name in notice
