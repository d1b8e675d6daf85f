# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the overlay defines by symbol name is declared like that in TensorFlow's headers.

They are read by libclang, which TensorFlow requires: g++ cannot compile all of them, and it is
slow. It also tells the layout of a class whose members are private.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from clang import cindex

from tf_malleable.runtime.tensorflow_install import find_tensorflow

ROOT = Path(__file__).parents[2]
OVERLAY = ROOT / "cc" / "overlay"
HEADERS = (
    "tensorflow/core/util/mkl_util.h",
    "xla/backends/cpu/runtime/ynnpack/ynn_fusion_thunk.h",
)
CLASSES = ("OpKernelContext", "FactoryKeyCreator", "YnnFusionThunk")

pytestmark = pytest.mark.slow


def with_symbol_names() -> dict[str, str]:
    """Return the result that the overlay gives each function it defines by symbol name."""
    text = "".join(path.read_text() for path in OVERLAY.glob("*.cc"))
    found = re.findall(r'(\w+) \w+\([^)]*\)\s*asm\(\s*((?:"\w+"\s*)+)\)', text)
    return {re.sub(r'"\s*"?', "", name): result for result, name in found}


def folders(include: Path) -> Iterator[Path]:
    """Yield where headers are: TensorFlow's, what it ships of others, g++'s."""
    yield include
    external = include / "external"
    yield from (*external.glob("onednn*/include"), external / "slinky", external / "XNNPACK")
    yield external / "XNNPACK" / "ynnpack" / "include"
    command = ["g++", "-E", "-x", "c++", "-v", "/dev/null"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    yield from (Path(line[1:]) for line in said.splitlines() if line.startswith(" /"))


def tensorflows() -> dict[str, Path]:
    """Return the headers of the installed TensorFlow, and those that make_dist has fetched."""
    fetched = (find_tensorflow([str(folder)]) for folder in ROOT.glob("build/tensorflow/*"))
    return {
        each.version: each.directory / "include" for each in (*fetched, find_tensorflow()) if each
    }


@pytest.fixture(scope="module", params=tensorflows().items(), ids=lambda param: param[0])
def members(request):
    """Return the members of the classes, by class."""
    version, include = request.param
    if not (include / "external" / "slinky").is_dir():
        pytest.skip(f"TensorFlow {version} lacks the headers that its own include")
    arguments = ["-std=c++17", "-nostdinc", "-DINTEL_MKL", "-DENABLE_ONEDNN_V3"]
    arguments += [part for folder in folders(include) for part in ("-isystem", str(folder))]
    unit = cindex.Index.create().parse(
        "headers.cc",
        arguments,
        [("headers.cc", "".join(f'#include "{header}"\n' for header in HEADERS))],
        cindex.TranslationUnit.PARSE_SKIP_FUNCTION_BODIES,
    )
    spaces, found = [unit.cursor], {}
    while spaces:
        for child in spaces.pop().get_children():
            if child.kind == cindex.CursorKind.NAMESPACE:
                spaces.append(child)
            elif child.is_definition() and child.spelling in CLASSES:
                found[child.spelling] = list(child.get_children())
    return found


def test_the_headers_declare_each_function_with_the_same_result(members):
    declared = {
        name: member.result_type.spelling
        for found in members.values()
        for member in found
        # A constructor has two names.
        for name in (member.mangled_name, re.sub(r"C1(?=E)", "C2", member.mangled_name))
    }
    defined = with_symbol_names()
    assert len(defined) == 6
    assert {name: declared.get(name) for name in defined} == defined


def test_the_key_is_the_first_member(members):
    fields = [m for m in members["FactoryKeyCreator"] if m.kind == cindex.CursorKind.FIELD_DECL]
    key = fields[0]
    assert key.spelling == "key_"
    assert key.get_field_offsetof() == 0
    assert key.type.get_canonical().spelling == "std::basic_string<char>"
