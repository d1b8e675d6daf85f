# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Requests that programs cost a file server, through a tier and without one.

The server is a file system of the test's that lets the kernel remember nothing. What it is asked
by a program without the shim is what the same program may cost it with the shim.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.deadline import DEADLINE
from tests.support.fuse_source import GETATTR, LOOKUP, OPEN, READ, FuseSource, mounted
from tests.support.tier_stand_in import StandIn

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
KINDS = {LOOKUP: "lookup", GETATTR: "getattr", OPEN: "open", READ: "read"}
DATA = bytes(range(256)) * 50
FILES = {f"file-{number}": DATA for number in range(3)}
BEGIN = """
import fcntl, mmap, os, subprocess, sys
for path in sys.argv[1:]:
"""
# What programs do with each of some files.
HABITS = {
    "read": """
    file = os.open(path, os.O_RDONLY)
    while os.read(file, 1 << 18): pass
    os.close(file)
""",
    "read twice at the end": """
    file = os.open(path, os.O_RDONLY)
    while os.read(file, 5000): pass
    assert os.read(file, 1) == b''
    os.close(file)
""",
    "buffered": """
    assert len(open(path, 'rb').read()) == 12800
""",
    "lines": """
    for line in open(path, encoding='latin-1'): pass
""",
    "pread": """
    file = os.open(path, os.O_RDONLY)
    for offset in range(0, 12801, 1280): os.pread(file, 1280, offset)
    os.close(file)
""",
    "seek": """
    file = os.open(path, os.O_RDONLY)
    size = os.lseek(file, 0, os.SEEK_END)
    os.lseek(file, 0, os.SEEK_SET)
    assert len(os.read(file, size)) == size
    assert os.lseek(file, 0, os.SEEK_END) == size
    os.close(file)
""",
    "status": """
    os.stat(path)
    with open(path, 'rb') as file:
        for _ in range(3): os.fstat(file.fileno())
""",
    "map": """
    with open(path, 'rb') as file:
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[:]
""",
    "send": """
    with open(path, 'rb') as file, open('/dev/null', 'wb') as null:
        os.sendfile(null.fileno(), file.fileno(), 0, 12800)
""",
    "another program": """
    subprocess.run(['cat', path], stdout=subprocess.DEVNULL, check=True)
""",
    "flags": """
    with open(path, 'rb') as file:
        fcntl.fcntl(file, fcntl.F_GETFL)
        os.close(os.dup(file.fileno()))
        assert len(file.read()) == 12800
""",
}


class Server:
    """The files, below a folder."""

    def __init__(self, source: FuseSource, folder: Path) -> None:
        self._source, self.paths = source, [folder / name for name in FILES]

    def asked(self, habit: str, environment: Mapping[str, str] | None = None) -> Counter[str]:
        """Return what a program asks, by kind."""
        before = self._source.asked.copy()
        command = [sys.executable, "-S", "-c", BEGIN + HABITS[habit], *map(str, self.paths)]
        subprocess.run(command, env=environment, check=True, timeout=DEADLINE)
        asked = self._source.asked - before
        return Counter({name: asked[kind] for kind, name in KINDS.items()})


@contextmanager
def server(folder: Path) -> Iterator[Server]:
    source = FuseSource(FILES)
    source.remembered_s = 0
    with mounted(source, folder):
        yield Server(source, folder)


@pytest.mark.parametrize("habit", HABITS)
def test_a_tier_that_is_gone_costs_nothing(tmp_path, habit):
    with StandIn(tmp_path) as daemon:
        daemon.live(0)
    with server(daemon.source) as files:
        assert files.asked(habit, daemon.environment()) == files.asked(habit)


@pytest.mark.parametrize("habit", HABITS)
def test_files_of_no_source_cost_nothing(tmp_path, habit):
    (tmp_path / "beside").mkdir()
    with StandIn(tmp_path) as daemon, server(tmp_path / "beside") as files:
        assert files.asked(habit, daemon.environment()) == files.asked(habit)


@pytest.mark.parametrize("habit", HABITS)
def test_to_be_copied_costs_nothing(tmp_path, habit):
    with StandIn(tmp_path, publishes=False) as daemon, server(daemon.source) as files:
        assert files.asked(habit, daemon.environment()) == files.asked(habit)
        daemon.hear_out()
        assert daemon.said[-1].counts.source_opens > 0  # The shim was there.


@pytest.mark.parametrize("habit", HABITS)
def test_a_copy_costs_a_look_at_the_source_for_each_open(tmp_path, habit):
    with StandIn(tmp_path) as daemon, server(daemon.source) as files:
        for path in files.paths:
            daemon.place(path, DATA)
        asked, plain = files.asked(habit, daemon.environment()), files.asked(habit)
        assert (asked["open"], asked["read"]) == (0, 0)
        assert asked["lookup"] + asked["getattr"] <= plain["lookup"] + plain["getattr"]
