# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Holds a library to cc/capi/tfm.h: the overlay, or a TensorFlow built with the patches.

``make conformance LIB=…`` runs it for a library of yours.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.conformance import cases_abi, cases_tensorflow
from tests.conformance.abi import Library
from tests.conformance.abi_child import run


def cases(module: object) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__annotations__", {}).get("library") == "Library"
    ]


@pytest.fixture(scope="module")
def tensorflows_lib(lib: Path) -> Path:
    """Give the library; fail unless this Python's TensorFlow is the one it serves."""
    if Library(lib).c.tfm_backend() == b"overlay":
        return lib
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None or not Path(spec.origin).parent.samefile(lib.parent):
        pytest.fail(f"this Python's tensorflow is not the one of {lib}: name its own, TF_PYTHON=…")
    return lib


@pytest.mark.parametrize("case", cases(cases_abi))
def test_without_pools(lib, case):
    run(lib, cases_abi.__name__, case, TF_MALLEABLE_MAX_THREADS="16")


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(cases_tensorflow))
def test_with_tensorflow(tensorflows_lib, case):
    run(
        tensorflows_lib,
        cases_tensorflow.__name__,
        case,
        TF_MALLEABLE_MAX_THREADS="16",
        TF_NUM_INTRAOP_THREADS="2",
        TF_NUM_INTEROP_THREADS="2",
    )
