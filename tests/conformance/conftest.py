# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which library is tested: ``--lib PATH``, else the overlay that is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lib", type=Path, help="the library that exports the tfm_* C ABI")


@pytest.fixture(scope="session")
def lib(pytestconfig: pytest.Config) -> Path:
    path = pytestconfig.getoption("--lib", None)
    if path is None:
        spec = importlib.util.find_spec("tf_malleable")
        if spec is None or spec.origin is None:
            raise pytest.UsageError("no tf_malleable here; name a library: --lib PATH")
        folder = Path(spec.origin).parent / "runtime"
        overlays = sorted(folder.glob("libtf_malleable_overlay-*.so"))
        if len(overlays) != 1:
            found = ", ".join(path.name for path in overlays) or "none"
            raise pytest.UsageError(f"--lib: which overlay? There is {found} in {folder}")
        path = overlays[0]
    if not path.is_file():
        raise pytest.UsageError(f"--lib: there is no library {path}")
    return path.absolute()
