# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tests that need TensorFlow, in processes of their own: its pools and threads stay.

tests/runtime looks at a process without any.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import zygote


@pytest.mark.slow
@pytest.mark.parametrize(
    "cases", ["cases_backup.py", "cases_kept.py", "cases_marks.py", "cases_pipeline.py"]
)
def test_all_pass(cases):
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    process = zygote.popen("keras")(
        [*words, str(Path(__file__).with_name(cases))],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert " passed" in said
