# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The Bazel that is installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support import ROOT

RUN_BAZEL = str(ROOT / "tools" / "run_bazel.sh")


def bazel(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Bazel in folder/workspace, with folder/cache for what it makes."""
    return subprocess.run(
        [RUN_BAZEL, "--batch", f"--output_user_root={folder}/cache", *arguments],
        cwd=folder / "workspace",
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
