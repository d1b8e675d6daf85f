# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Kills at random, by the test that checks what comes of them, run as a program."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import tf_malleable
from benchmarks.common.children import REPOSITORY, clean_environment

_TEST: Final = "tests/cluster/test_random_kills.py"
_SECONDS_EACH: Final = 30


def measure(count: int, seed: int = 1) -> dict[str, Any]:
    """Kill so often; return whether all was well in the end, and what the test said."""
    environment = clean_environment(
        {
            "PYTHONPATH": str(Path(tf_malleable.__file__).parents[1]),
            "TFM_TEST_OPERATOR_KILLS": str(count),
            "TFM_TEST_SEED": str(seed),
        }
    )
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", _TEST]
    words.append(f"--timeout={_SECONDS_EACH * (count + 10)}")
    begin = time.monotonic()
    done = subprocess.run(words, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    return {
        "kills": count,
        "passed": done.returncode == 0,
        "seconds": time.monotonic() - begin,
        "said": done.stdout.splitlines()[-40:],
    }
