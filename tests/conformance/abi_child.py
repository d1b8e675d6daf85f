# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Runs one case in a process of its own: ``LIBRARY MODULE CASE``."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

from tests.conformance.abi import Library
from tests.support import ROOT


def run(library: Path, module: str, case: str, **environment: str) -> None:
    """Run a case; its assertions are the caller's."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(library), module, case],
        env={**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{case}: exit status {done.returncode}\n{done.stderr[-4000:]}"


def main() -> None:
    path, module, case = sys.argv[1:]
    library = Library(Path(path))
    if library.c.tfm_backend() == b"overlay":
        library = Library(Path(path), in_front=True)
    getattr(importlib.import_module(module), case)(library)


if __name__ == "__main__":
    main()
