# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The tfm command as a process, and jobs that wait in a controller's queue."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.controllers import TFM

# The only one that a test's controller shares out.
CPU = min(os.sched_getaffinity(0))


def tfm(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    """Run tfm to its end."""
    return subprocess.run(
        [TFM, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


@contextmanager
def started(*arguments: str, **options) -> Iterator[subprocess.Popen[str]]:
    """Have tfm running for the length of a with statement."""
    process = subprocess.Popen(
        [TFM, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)


@contextmanager
def running(*options: str) -> Iterator[subprocess.Popen[str]]:
    """Have a job that computes nothing, started by tfm run, for the length of a with."""
    with started("run", *options, "--", "sh", "-c", "echo started; exec sleep 600") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        yield process
