# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The descriptor of a hit is that of the source: locks, times, modes, attributes, and what grows.

The other side of each test is a process without the shim.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

import pytest

from tests.support.controllers import wait_for
from tests.support.long_reader import LongReader
from tests.support.tiers import make_source, one_node

pytestmark = pytest.mark.slow
TFM_RUN = [sys.executable, "-m", "tf_malleable_cli", "run", "--tier", "--"]
DATA = b"data" * 100_000


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "source", {"set/file": DATA})


@pytest.fixture
def node(tmp_path, source):
    """A tier that has copies of the files."""
    with one_node(tmp_path, source) as found:
        found.warm(source / "set")
        yield found


@pytest.fixture
def reader(node):
    environment = {**os.environ, "TF_MALLEABLE_TIER_SOCKET": str(node.socket)}
    environment["TF_MALLEABLE_SOCKET"] = str(node.folder / "no-controller")
    with LongReader(TFM_RUN, environment) as found:
        yield found


@pytest.fixture
def path(source, node, reader):
    """A file that the reader has open, by its copy."""
    found = source / "set/file"
    reader.open(found)
    assert reader.more(4) == b"data"
    # Otherwise these tests would show nothing.
    wait_for(lambda: node.counted("copy_opens") > 0)
    return found


def test_what_is_open_is_read(reader, path):
    assert reader.more() == DATA[4:]
    assert reader.call("os.fstat(fd).st_ino") == path.stat().st_ino


LOCKS = {
    "flock": "fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)",
    "lockf": "fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)",
    # struct flock: F_RDLCK, SEEK_SET, all of the file.
    "ofd": "fcntl.fcntl(fd, 37, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0))",
}


def keep_out(writer, lock):
    """Lock a file for writing, as a process without the shim does."""
    do = fcntl.flock if lock == "flock" else fcntl.lockf
    do(writer, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("lock", LOCKS)
def test_a_reader_who_locks_keeps_writers_out(reader, path, lock):
    reader.call(LOCKS[lock])
    with path.open("r+b") as writer, pytest.raises(BlockingIOError):
        keep_out(writer, lock)


@pytest.mark.parametrize("lock", LOCKS)
def test_a_writer_who_locks_keeps_readers_out(reader, path, lock):
    with path.open("r+b") as writer:
        keep_out(writer, lock)
        assert reader.call(LOCKS[lock]) == [11]  # EAGAIN


def test_hdf5_does_not_open_for_writing_what_is_read(tmp_path):
    import h5py

    made = make_source(tmp_path / "source", {"set/other": DATA})
    path = made / "set/file.h5"
    with h5py.File(path, "w") as file:
        file["numbers"] = list(range(1000))
    then = path.stat().st_mtime - 100
    os.utime(path, (then, then))
    write = f"import h5py; h5py.File({str(path)!r}, 'r+')"
    read = (
        f"import h5py, subprocess, sys; file = h5py.File({str(path)!r}, 'r');"
        f"environment = {{'PATH': '/usr/bin'}};"
        f"done = subprocess.run([sys.executable, '-c', {write!r}], env=environment,"
        " stderr=subprocess.PIPE); print(done.returncode, b'lock' in done.stderr)"
    )
    # So it is without a tier.
    plain = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True)
    assert plain.stdout == "1 True\n", plain.stderr
    with one_node(tmp_path, made) as node:
        node.warm(made / "set")
        environment = {**os.environ, "TF_MALLEABLE_TIER_SOCKET": str(node.socket)}
        environment["TF_MALLEABLE_SOCKET"] = str(tmp_path / "no-controller")
        found = subprocess.run(
            [*TFM_RUN, sys.executable, "-c", read], env=environment, capture_output=True, text=True
        )
        assert found.stdout == plain.stdout, found.stderr


def test_times_are_set_at_the_source(reader, path):
    reader.call("os.utime(fd, (1_000_000_000, 1_000_000_001))")
    assert path.stat().st_mtime == 1_000_000_001


def test_the_mode_is_set_at_the_source(reader, path):
    reader.call("os.fchmod(fd, 0o640)")
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_is_set_at_the_source(reader, path):
    reader.call("os.fchown(fd, 4101, 4101)")
    assert (path.stat().st_uid, path.stat().st_gid) == (4101, 4101)


def test_attributes_are_set_at_the_source(reader, path):
    reader.call("os.setxattr(fd, 'user.note', b'mine')")
    assert os.listxattr(path) == ["user.note"]
    assert os.getxattr(path, "user.note") == b"mine"


def test_attributes_are_those_of_the_source(reader, path):
    os.setxattr(path, "user.note", b"theirs")
    assert reader.call("os.getxattr(fd, 'user.note')") == "theirs"
    assert reader.call("os.listxattr(fd)") == ["user.note"]


def test_what_is_appended_shows(reader, path):
    assert reader.more() == DATA[4:]
    with path.open("ab") as file:
        file.write(b"more")
    assert reader.more() == b"more"
