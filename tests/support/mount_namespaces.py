# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whether this machine lets us mount what only our own processes see."""

from __future__ import annotations

import shutil
import subprocess

import pytest

_CAN_MOUNT = (
    shutil.which("unshare") is not None
    and subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True
    ).returncode
    == 0
)
needs_mounts = pytest.mark.skipif(not _CAN_MOUNT, reason="nothing can be mounted here")
