# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""For all tests: signals as at a terminal, the environment, and which may run in parallel."""

from __future__ import annotations

import fcntl
import os
import signal
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

# Some tests press Ctrl-C or hang up on programs they start. What started us may have
# had these signals ignored (nohup, a shell's background), which children inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# On a terminal `tfm run` stays in front of its program. Tests of that have terminals of their own;
# all others are the same in a shell and in CI. Ctrl-C still comes, as it goes to a process group.
if os.getsid(0) != os.getpid():
    with suppress(OSError), open("/dev/tty") as terminal:
        fcntl.ioctl(terminal, termios.TIOCNOTTY)

# Controllers of tests that run in parallel share out the same CPUs.
os.environ["TF_MALLEABLE_CLAIMS"] = ""
# Their jobs would leave the tests themselves a seventeenth of these.
os.environ["TF_MALLEABLE_CPU_WEIGHTS"] = "off"

# Many import TensorFlow in a new Python.
_QUICK = str(Path(__file__).parent / "tensorflow" / "quick_start")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (_QUICK, os.environ.get("PYTHONPATH"))))

# Without Hypothesis the tests run that need none: of conformance, say.
with suppress(ModuleNotFoundError):
    from hypothesis import settings

    # An example takes longer beside other tests. pytest-timeout finds those that hang.
    settings.register_profile("parallel", deadline=None)
    settings.load_profile("parallel")

# Folders whose tests run on one worker: there is one Docker engine, one browser, and one stand-in
# for a patched TensorFlow, which takes long to build.
TOGETHER = {"containers", "patched", "web"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = Path(__file__).parent
    for item in items:
        if not item.path.is_relative_to(tests):
            continue
        folder = item.path.relative_to(tests).parts[0]
        if folder in TOGETHER:
            item.add_marker(pytest.mark.xdist_group(folder))


@pytest.fixture(autouse=True)
def environment_stays() -> Iterator[None]:
    """Programs of later tests would start with what a test leaves in the environment."""
    before = dict(os.environ)
    yield
    for each in (before, now := dict(os.environ)):
        each.pop("PYTEST_CURRENT_TEST", None)
    assert now == before, "the test has left changes in the environment (monkeypatch undoes them)"
