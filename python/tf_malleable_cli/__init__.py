# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Starts the tfm command.

This is outside tf_malleable because importing that can fail (invalid environment
variable, unsupported TensorFlow), which the command reports in one line.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        from tf_malleable.cli.launch.direct_start import start_directly

        start_directly(sys.argv[1:])
        from tf_malleable.cli.main import main as tfm
    except (ImportError, ValueError) as error:
        print(f"tfm: {error}", file=sys.stderr)
        return 2
    return tfm()
