# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What all programs that benchmarks start have in common: their folder, their environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]
# Whatever the user has set must not reach one side of a comparison, or both.
_FOREIGN: Final = ("TF_", "XLA_", "OMP_", "PYTHON", "XDG_RUNTIME_DIR", "LD_PRELOAD")


def clean_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment, with these variables in place of TensorFlow's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    return {**kept, "TF_CPP_MIN_LOG_LEVEL": "3", **variables}
