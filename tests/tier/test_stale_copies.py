# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""An open of a hit reads what is true at the open, whoever has changed the source on this node."""

from __future__ import annotations

import mmap
import os
import random
import shutil
import sys

import pytest

from tests.support.controllers import wait_for
from tests.support.long_reader import LongReader
from tests.support.tiers import make_source, one_node

pytestmark = pytest.mark.slow
# Files that are changed in each way; more for a longer look.
FILES = int(os.environ.get("TFM_TEST_CHANGES", "20"))
SIZES = {"small": 100_001, "large": (2 << 20) + 777}


# What a process without the shim does to a file.


def copied(path, new):
    other = path.with_name(f"{path.name}.new")
    other.write_bytes(new)
    shutil.copyfile(other, path)


def renamed(path, new):
    other = path.with_name(f"{path.name}.new")
    other.write_bytes(new)
    os.replace(other, path)


def appended(path, new):
    with path.open("ab") as file:
        file.write(new)


def truncated(path, new):
    os.truncate(path, len(new) // 2)


def written_in_place(path, new):
    with path.open("r+b") as file:
        file.write(new)


def mapped(path, new):
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[: len(new)] = new
        memory.flush()


KINDS = (copied, renamed, appended, truncated, written_in_place, mapped)


def reader_of(node):
    """Start a program that reads through a tier."""
    environment = {**os.environ, "TF_MALLEABLE_TIER_SOCKET": str(node.socket)}
    environment["TF_MALLEABLE_SOCKET"] = str(node.folder / "no-controller")
    command = [sys.executable, "-m", "tf_malleable_cli", "run", "--tier", "--"]
    return LongReader(command, environment)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("change", KINDS, ids=lambda change: change.__name__)
def test_no_old_byte_is_read_after_a_change(tmp_path, change, size):
    files = {
        f"set/{number}": random.Random(number).randbytes(SIZES[size]) for number in range(FILES)
    }
    source = make_source(tmp_path / "source", files)
    new = random.Random(-1).randbytes(SIZES[size])
    with one_node(tmp_path, source) as node:
        node.warm(source / "set")
        with reader_of(node) as reader:
            old = 0
            for name, data in files.items():
                path = source / name
                assert reader.read(path) == data
                # Otherwise this would show nothing.
                wait_for(lambda: node.counted("copy_opens") > 0)
                change(path, new)
                old += reader.read(path) != path.read_bytes()
            assert old == 0


def test_a_file_that_is_gone_is_gone(tmp_path):
    source = make_source(tmp_path / "source", {"set/file": b"x" * 1000})
    with one_node(tmp_path, source) as node:
        node.warm(source / "set")
        with reader_of(node) as reader:
            assert reader.read(source / "set/file") == b"x" * 1000
            wait_for(lambda: node.counted("copy_opens") > 0)
            (source / "set/file").unlink()
            assert reader.read(source / "set/file") is None
