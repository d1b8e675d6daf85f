# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Commands as the first processes of PID namespaces, as in containers."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.deadline import DEADLINE

IN_NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
if os.getuid():
    IN_NAMESPACE[1:1] = ["--user", "--map-root-user"]

_CAN_BE_MADE = (
    shutil.which("unshare") is not None
    and subprocess.run([*IN_NAMESPACE, "true"], capture_output=True).returncode == 0
)
needs_namespaces = pytest.mark.skipif(not _CAN_BE_MADE, reason="no PID namespace can be made here")


class Container:
    """A command as the first process of a PID namespace of its own."""

    def __init__(self, *words: str, **options: Any) -> None:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True}
        self.process: subprocess.Popen[str] = subprocess.Popen(
            [*IN_NAMESPACE, *words], **{**pipes, **options}
        )

    def __enter__(self) -> Container:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def first(self) -> int:
        """Return the first process' id outside the namespace."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")
        return int(wait_for(children.read_text).split()[0])

    def end(self) -> int:
        """Return the exit code, once it has ended."""
        return self.process.wait(DEADLINE)


def wait_for(condition: Callable[[], Any]) -> Any:
    """Return what a condition says as soon as that is true."""
    deadline = time.monotonic() + DEADLINE
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return found
