# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The init in front of tfm, where tfm is the first process of a PID namespace as in a container."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.controllers import TFM
from tests.support.deadline import DEADLINE
from tests.support.pid_namespaces import IN_NAMESPACE, Container, needs_namespaces, wait_for

pytestmark = needs_namespaces

SLEEPS = "print('ready', flush=True); import time; time.sleep(600)"
HANDLES = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("ready", flush=True)
signal.pause()
"""
# Its grandchild becomes an orphan, and ends.
ORPHAN = """
import os, time
read, write = os.pipe()
if not os.fork():
    if not os.fork():
        os.write(write, str(os.getpid()).encode())
        os._exit(0)
    os._exit(0)
os.wait()
orphan = os.read(read, 9).decode()
while os.path.exists(f"/proc/{orphan}"):
    time.sleep(0.01)
print(os.getpid() == 1, flush=True)
"""
COUNTS = """
import signal, time
came = []
signal.signal(signal.SIGINT, lambda *_: came.append(1))
print("ready", flush=True)
while not came:
    time.sleep(0.01)
time.sleep(0.5)
print("interrupted", len(came), flush=True)
"""


def loses_nothing(pid):
    """Return whether tfm has blocked SIGTERM in a process, as unshare(1) does, too."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes()
    if b"unshare" in words:
        return False
    found = re.search(r"^SigBlk:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    # While it waits for signals, none is blocked.
    return words.startswith(b"tfm-init") or bool(int(found[1], 16) >> (signal.SIGTERM - 1) & 1)


def python(program, *options):
    return [TFM, "run", *options, "--", sys.executable, "-c", program]


def test_sigterm_ends_a_program_that_has_no_handler():
    with Container(*python(SLEEPS)) as one:
        assert one.process.stdout.readline() == "ready\n"
        os.kill(one.first(), signal.SIGTERM)
        assert one.end() == 128 + signal.SIGTERM


def test_sigterm_ends_a_program_that_imports_tensorflow():
    program = "print('ready', flush=True); import tensorflow; import time; time.sleep(600)"
    with Container(*python(program)) as one:
        assert one.process.stdout.readline() == "ready\n"
        os.kill(one.first(), signal.SIGTERM)
        assert one.end() == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", range(5))
def test_no_signal_is_lost_from_when_tfm_runs(number):
    with Container(*python(SLEEPS)) as one:
        first = one.first()
        wait_for(lambda: loses_nothing(first))
        time.sleep(number * 0.01)
        os.kill(first, signal.SIGTERM)
        assert one.end() == 128 + signal.SIGTERM


def test_a_handler_of_the_program_is_called():
    with Container(*python(HANDLES)) as one:
        assert one.process.stdout.readline() == "ready\n"
        os.kill(one.first(), signal.SIGTERM)
        assert one.end() == 7


@pytest.mark.parametrize(
    ("program", "code"),
    [("raise SystemExit(5)", 5), ("import os; os.kill(os.getpid(), 9)", 137), ("", 0)],
)
def test_it_ends_as_the_program_does(program, code):
    with Container(*python(program, "--threads", "1")) as one:
        assert one.end() == code


def test_orphans_are_reaped():
    with Container(*python(ORPHAN)) as one:
        assert one.process.stdout.readline() == "False\n"
        assert one.end() == 0


def test_it_costs_less_than_a_python():
    with Container(*python(SLEEPS)) as one:
        assert one.process.stdout.readline() == "ready\n"
        status = Path(f"/proc/{one.first()}/status").read_text()
    assert "Name:\ttfm-init\n" in status
    found = re.search(r"^RssAnon:\s*(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    assert int(found[1]) < 500


def test_a_program_at_a_terminal_is_interrupted_once():
    pid, terminal = pty.fork()
    if not pid:
        os.execvp(IN_NAMESPACE[0], [*IN_NAMESPACE, *python(COUNTS)])
    said = b""
    with suppress(OSError):  # As the terminal says that all have ended.
        while more := os.read(terminal, 1000):
            said += more
            if b"ready" in said and b"^C" not in said:
                os.write(terminal, b"\x03")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)
    assert b"interrupted 1" in said


def test_other_commands_have_it_too():
    with Container(TFM, "elastic", "coordinator", "--listen", "127.0.0.1:0", "--fresh") as one:
        first = one.first()
        wait_for(lambda: loses_nothing(first))
        os.kill(first, signal.SIGTERM)
        assert one.end() in (0, 128 + signal.SIGTERM, 2)


@pytest.mark.parametrize("words", [[], ["0"], ["x"], ["1", "2"], ["999999999"]])
def test_what_is_no_child_is_refused(words):
    import tf_malleable

    init = Path(tf_malleable.__file__).parent / "runtime" / "tfm-init"
    found = subprocess.run([init, *words], capture_output=True, text=True, timeout=DEADLINE)
    assert found.returncode == 2
