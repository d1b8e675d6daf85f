# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A process hears of the end of the one that started it, also of one before it asked."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tf_malleable.linux.processes.signals import signal_at_end_of_parent

# Its child asks before, or a moment after, the parent's end, and says which signal came.
PROGRAM = """
import os, signal, sys
from tf_malleable.linux.processes.signals import signal_at_end_of_parent

parent = os.getpid()
read, write = os.pipe()
if os.fork():
    if sys.argv[1] == "before":
        os.read(read, 1)
    os._exit(0)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
while sys.argv[1] == "after" and os.getppid() == parent:
    pass
signal_at_end_of_parent(signal.SIGTERM, parent)
os.write(write, b".")
print(signal.sigtimedwait({signal.SIGTERM}, 60) is not None)
"""


@pytest.mark.parametrize("asks", ["before", "after"])
def test_the_end_of_the_parent_is_heard_of(asks):
    words = [sys.executable, "-c", PROGRAM, asks]
    found = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    assert (found.stdout, found.stderr) == ("True\n", "")


def test_what_is_no_signal_is_refused():
    with pytest.raises(OSError, match=r"prctl\(PR_SET_PDEATHSIG\): Invalid argument"):
        signal_at_end_of_parent(1000, 1)
