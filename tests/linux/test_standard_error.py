# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A line for stderr that cannot be written stops nobody."""

from __future__ import annotations

import subprocess
import sys

import pytest

SAY = [
    sys.executable,
    "-c",
    "from tf_malleable.linux.standard_error import say; say('a'); say('b')",
]


def test_lines_are_written():
    done = subprocess.run(SAY, stderr=subprocess.PIPE, check=True)
    assert done.stderr == b"a\nb\n"


@pytest.mark.parametrize("how", ["2>/dev/full", "2>&-", "2</dev/null"])
def test_or_not(how):
    done = subprocess.run(["sh", "-c", f'"$@" {how}', "sh", *SAY], check=False)
    assert done.returncode == 0
