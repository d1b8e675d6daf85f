# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What tests of several folders share. Tests import it as ``tests.support``."""

from pathlib import Path

# What child programs that import tests.support need as PYTHONPATH.
ROOT = Path(__file__).parents[2]
