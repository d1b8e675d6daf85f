# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The main promises on the TensorFlow that is installed, in one process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "smoke.py"


@pytest.mark.parametrize("start", ["1", "2", "4"])
def test_smoke(start):
    env = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_MALLEABLE_MAX_THREADS": "4",
        "TF_NUM_INTRAOP_THREADS": start,
        "TF_NUM_INTEROP_THREADS": start,
    }
    result = subprocess.run(
        [sys.executable, str(SCRIPT), start],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == "smoke ok"
