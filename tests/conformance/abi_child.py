# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Runs one case in a process of its own: ``LIBRARY MODULE CASE``.

Those that need TensorFlow are forked from a process that has imported it.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conformance import cases_tensorflow
from tests.conformance.in_front import VARIABLE, load
from tests.support import ROOT, zygote


def run(library: Path, module: str, case: str, **environment: str) -> None:
    """Run a case; its assertions are the caller's."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {"PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3", **environment}
    popen: Any = subprocess.Popen
    if module == cases_tensorflow.__name__:
        popen = zygote.popen("conformance", PYTHONPATH=path, **{VARIABLE: str(library)})
    process = popen(
        [sys.executable, "-m", __name__, str(library), module, case],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, said = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, f"{case}: exit status {process.returncode}\n{said[-4000:]}"


def main() -> None:
    path, module, case = sys.argv[1:]
    getattr(importlib.import_module(module), case)(load(Path(path)))


if __name__ == "__main__":
    main()
