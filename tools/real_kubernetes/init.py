# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The first process of a PID namespace, which inherits all orphans."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn


def run_as_init(main: Callable[[], int]) -> NoReturn:
    """Run a function in a child, reap all other children, and exit with the child's code."""
    child = os.fork()
    if child == 0:
        sys.exit(main())
    # Ctrl-C at the terminal is for the child.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
