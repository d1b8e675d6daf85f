# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The overlay exports what its linker script lists, and needs nothing of TensorFlow."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tf_malleable.runtime import library
from tf_malleable.runtime.tensorflow_install import find_tensorflow

SCRIPT = Path(__file__).parents[2] / "cc" / "overlay" / "exports.lds"
HEADER = Path(__file__).parents[2] / "cc" / "capi" / "tfm.h"


def nm(path: Path, *options: str) -> list[str]:
    """Return demangled names, without versions; not the local ones that gold lists too."""
    command = ["nm", "--dynamic", "--extern-only", "--demangle", *options, str(path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [re.sub(r"@.*", "", line.split(maxsplit=2)[-1]) for line in output.splitlines()]


def listed(minor: str) -> set[str]:
    """Return the quoted functions of the script that a TensorFlow has."""
    functions, has = set(), True
    for line in SCRIPT.read_text().splitlines():
        if some := re.search(r"TensorFlow 2\.(\d+) (only|and later)\.", line):
            than = int(minor.partition(".")[2]) - int(some[1])
            has = than == 0 or (than > 0 and some[2] == "and later")
        elif "All TensorFlows." in line:
            has = True
        elif has and (quoted := re.search(r'"(.+)";', line)):
            functions.add(quoted[1])
    return functions


@pytest.fixture(params=library.overlays().items(), ids=lambda param: param[0])
def overlay(request):
    return request.param


def test_exports_are_those_listed_and_the_abi(overlay):
    minor, path = overlay
    exported = set(nm(path, "--defined-only"))
    abi = set(re.findall(r"\b(tfm_\w+)\(", HEADER.read_text()))
    assert len(abi) >= 8
    assert exported == listed(minor) | abi


@pytest.mark.slow
def test_tensorflow_has_every_function_the_overlay_replaces():
    found = find_tensorflow()
    assert found is not None
    names: set[str] = set()
    for name in ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2"):
        names |= set(nm(found.directory / name, "--defined-only"))
    assert listed(found.minor) <= names


def test_nothing_of_tensorflow_is_needed(overlay):
    _, path = overlay
    undefined = "\n".join(nm(path, "--undefined-only"))
    assert not re.search(r"tensorflow|tsl::|absl::|xla::|google::protobuf", undefined)
    needed = subprocess.run(
        ["readelf", "--dynamic", str(path)], capture_output=True, text=True, check=True
    ).stdout
    assert "NEEDED" in needed
    assert "tensorflow" not in "".join(re.findall(r"NEEDED.*", needed))
