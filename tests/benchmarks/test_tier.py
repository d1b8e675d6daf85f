# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the benchmark of data tiers needs of a machine is said in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="others are told to run it as root"),
    pytest.mark.skipif(not os.access("/dev/fuse", os.W_OK), reason="others have no /dev/fuse"),
]
INSTALL = "apt-get install libfuse3-dev fuse3 pkg-config gcc"
COMMANDS = {
    "tier": ["-m", "benchmarks.tier", "--only", "cold-8"],
    "demo-tier": [str(ROOT / "examples" / "demo_tier.py")],
}


def refusal(name: str, folder: Path, programs: Path) -> str:
    """Return what a program says as it ends on a machine that has only these programs."""
    out = folder / ("out.png" if name == "demo-tier" else "out")
    done = subprocess.run(
        [sys.executable, *COMMANDS[name], "--out", out],
        cwd=ROOT,
        env={**os.environ, "PATH": str(programs), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_machine_without_libfuse_is_told_what_to_install(tmp_path, name):
    programs = tmp_path / "bin"
    programs.mkdir()
    assert refusal(name, tmp_path, programs) == f"{name}: it needs pkg-config: {INSTALL}\n"
    for program in ("pkg-config", "cc", "unshare", "nsenter", "fusermount3"):
        (programs / program).write_text("#!/bin/sh\nexit 1\n")
        (programs / program).chmod(0o755)
    assert refusal(name, tmp_path, programs) == f"{name}: it needs libfuse3-dev: {INSTALL}\n"
