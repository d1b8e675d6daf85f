# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Starts the tfm command.

This is outside tf_malleable because importing that can fail (invalid environment
variable, unsupported TensorFlow), which the command reports in one line.
"""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        if os.getpid() == 1:
            from tf_malleable.linux.processes.container_init import put_init_in_front

            put_init_in_front()
        if sys.argv[1:2] == ["run"]:
            from tf_malleable.cli.launch.front import run_program

            code = run_program(sys.argv[2:])
            if code is not None:
                return code
        from tf_malleable.cli.main import main as tfm
    except (ImportError, ValueError) as error:
        print(f"tfm: {error}", file=sys.stderr)
        return 2
    return tfm()
