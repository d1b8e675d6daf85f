# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A Jupyter kernel: its cells follow three grants, after an interrupt and a restart, too."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.controllers import TFM
from tests.support.jobs import has_ended
from tests.support.programs import ENDS, family, follow, wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs"),
]

LIMIT = "import os; from limits import limit; print(limit(), os.getpid())"
BUSY = 'import time; print("busy", flush=True); time.sleep(600)'


def test_a_kernel_follows_grants(controller, app):
    command = [TFM, "run", "--preferred", "1", "--max", "2", "--", sys.executable, "notebook.py"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=app, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def said(cell: str) -> str:
            process.stdin.write(f"{cell}\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        def limit() -> int:
            return int(said(LIMIT).split()[0])

        try:
            follow(controller, limit)
            assert said(f"interrupt {BUSY}") == "busy KeyboardInterrupt"
            assert limit() == 2
            kernel = int(said(LIMIT).split()[1])
            assert said("restart") == "restarted"
            assert has_ended(kernel)
            assert limit() == 2
            members = family(process.pid)
            process.stdin.close()
            assert process.wait(ENDS) == 0
        finally:
            process.kill()
    wait_for(lambda: all(map(has_ended, members)))
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])
