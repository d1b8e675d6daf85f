# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The log file of a controller in the background stays small, whatever is written to stderr."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tf_malleable.controller.state.log_file import LogFile, LogFileError

# Another process, as its stderr is replaced.
WRITER = """
import os, sys
from pathlib import Path
from tf_malleable.controller.state.log_file import LogFile
log = LogFile(Path(sys.argv[1]), most=100)
log.take_over()
for number in range(50):
    print("line", number, file=sys.stderr, flush=True)
    os.write(2, b"x" * 20 + b"\\n")  # As Python's own tracebacks.
    log.trim()
log.close()
print("the end", file=sys.stderr, flush=True)
"""


def test_it_is_begun_anew_and_the_end_is_kept(tmp_path):
    path = tmp_path / "new" / "controller.log"
    subprocess.run([sys.executable, "-c", WRITER, path], check=True)
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name, f"{path.name}.1"]
    before, now = path.with_name(f"{path.name}.1").read_text(), path.read_text()
    assert len(before) < 200
    assert len(now) < 200
    assert now.endswith("the end\n")
    kept = [line for line in (before + now).splitlines() if line.startswith("line")]
    assert kept == [f"line {number}" for number in range(50 - len(kept), 50)]


def test_a_small_one_goes_on(tmp_path):
    path = tmp_path / "controller.log"
    path.write_text("before\n")
    log = LogFile(path, most=100)
    log.trim()
    log.close()
    assert path.read_text() == "before\n"


def test_one_that_cannot_be_written_is_refused(tmp_path):
    path = tmp_path / "controller.log"
    path.symlink_to(os.devnull)
    with pytest.raises(LogFileError, match=f"^cannot write the log file {path}: "):
        LogFile(path)
