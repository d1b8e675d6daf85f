# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What goes wrong around the shim never reaches a program: it reads the source's bytes."""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tests.support import tier_stand_in
from tests.support.deadline import DEADLINE
from tests.support.fuse_source import FuseSource, mounted
from tests.support.tier_stand_in import StandIn, stop
from tests.support.tiers import read_until
from tf_malleable.tier.protocol import MessageKind, ReaderCounts, StateFlag

pytestmark = pytest.mark.slow
LARGE = 3_000_001
COMMON = """
import hashlib, mmap, os, subprocess, sys, threading, time
path, paths = sys.argv[1], sys.argv[1:]
def go(): open(path.split('/source/')[0] + '/go', 'w')
def check(data, size=None):
    expected = open(path.replace('/source/', '/expected/'), 'rb').read()
    assert data == (expected if size is None else expected[:size]), len(data)
"""
WHOLE_READ = COMMON + "check(open(path, 'rb').read())"


def content(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


@pytest.fixture
def daemon(tmp_path):
    with StandIn(tmp_path) as started:
        yield started


@pytest.fixture
def path(daemon):
    return make(daemon, "set/file", LARGE)


def make(daemon, name, size):
    """Make a file of the source, and beside the source one with what it is to be read as."""
    data = content(size)
    expected = daemon.folder / "expected" / name
    expected.parent.mkdir(parents=True, exist_ok=True)
    expected.write_bytes(data)
    return daemon.make(name, data)


def copied(daemon, path):
    daemon.python(WHOLE_READ, path)
    return daemon.wait_for_copy(path)


def marked(daemon, path):
    """Have a file copied, and write other bytes to the copy: whoever reads zeros reads it."""
    copy = copied(daemon, path)
    copy.write_bytes(bytes(copy.stat().st_size))
    return copy


def test_without_a_daemon_the_source_is_read(tmp_path):
    daemon = StandIn(tmp_path)
    path = make(daemon, "set/file", LARGE)
    daemon.python(WHOLE_READ, path)
    shutil.rmtree(daemon.store)
    daemon.python(WHOLE_READ, path)


FIRST_BYTE = COMMON + "print(*open(path, 'rb').read(1))"


@pytest.mark.parametrize(
    "flags",
    [StateFlag.FILLS, StateFlag.FILLS | StateFlag.UNCHECKED, StateFlag.FILLS | StateFlag.SYNCS],
    ids=["checked", "unchecked", "synchronised"],
)
def test_a_daemon_that_is_gone_leaves_copies_which_readers_compare(tmp_path, flags):
    with StandIn(tmp_path, flags=flags) as daemon:
        path = make(daemon, "set/file", LARGE)
        marked(daemon, path)
        daemon.live(seconds=0)
        # The copy is taken, as the source has the same status.
        assert daemon.python(FIRST_BYTE, path) == "0\n"
        # It is not, as the source is another version.
        os.utime(path, (2_000_000, 2_000_000))
        daemon.python(WHOLE_READ, path)
        # And none is begun.
        other = make(daemon, "set/other", LARGE)
        daemon.python(WHOLE_READ, other)
        assert not daemon.kinds(other)


def test_copies_are_opened_unchecked_only_if_the_daemon_permits_it(tmp_path):
    with StandIn(tmp_path, flags=StateFlag.FILLS | StateFlag.UNCHECKED) as daemon:
        path = make(daemon, "set/file", LARGE)
        marked(daemon, path)
        os.utime(path, (2_000_000, 2_000_000))
        assert daemon.python(FIRST_BYTE, path) == "0\n"
        daemon.flags = StateFlag.FILLS
        daemon.live()
        daemon.python(WHOLE_READ, path)


def test_a_page_of_another_boot_is_none(daemon, path):
    marked(daemon, path)
    os.pwrite(daemon._page, bytes(8), 8)
    daemon.python(WHOLE_READ, path)


def test_a_copy_is_known_by_its_stamp_or_else_by_its_attribute(daemon, path):
    stamp = copied(daemon, path).stat().st_mtime_ns
    copy = marked(daemon, path)
    assert copy.stat().st_mtime_ns != stamp
    assert daemon.python(FIRST_BYTE, path) == "0\n"
    os.utime(copy, ns=(stamp, stamp))
    os.removexattr(copy, "user.tfm.source")
    assert daemon.python(FIRST_BYTE, path) == "0\n"
    os.chmod(path, 0o640)  # Another change time, and no more.
    daemon.python(WHOLE_READ, path)


@pytest.mark.parametrize("damage", ["none", "short", "version"])
def test_a_copy_without_its_attribute_is_none(daemon, path, damage):
    copy = marked(daemon, path)
    said = os.getxattr(copy, "user.tfm.source")
    if damage == "none":
        os.removexattr(copy, "user.tfm.source")
    else:
        changed = said[:-1] if damage == "short" else said[:4] + b"\1" + said[5:]
        os.setxattr(copy, "user.tfm.source", changed)
    daemon.python(WHOLE_READ, path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_a_look_at_a_remote_source_asks_its_server_if_the_daemon_says_so(tmp_path):
    with StandIn(tmp_path) as daemon:
        source = FuseSource({"file": content(LARGE)})
        source.remembered_s = 3600
        with mounted(source, daemon.source):
            path = daemon.source / "file"
            told = []
            daemon.python("import sys; open(sys.argv[1], 'rb').read()", path)
            daemon.wait_for_copy(path).write_bytes(bytes(LARGE))
            source.modified_s += 1
            source.files["file"] = content(LARGE, 2)
            for daemon.flags in (StateFlag.FILLS, StateFlag.FILLS | StateFlag.SYNCS):
                daemon.live()
                told.append(int(daemon.python(FIRST_BYTE, path)))
        assert told == [0, content(LARGE, 2)[0]]


@pytest.mark.serial("it measures time")
def test_a_daemon_that_hangs_delays_nobody(daemon):
    daemon.freeze()
    paths = [make(daemon, f"set/{i}", 10_000) for i in range(500)]
    code = COMMON + "for path in paths: check(open(path, 'rb').read())"
    begin = time.monotonic()
    daemon.python(code, *paths)
    assert time.monotonic() - begin < 15


def test_a_daemon_that_does_not_answer_is_asked_once(tmp_path):
    with StandIn(tmp_path, flags=StateFlag.FILLS | StateFlag.ASKS) as daemon:
        paths = [make(daemon, f"set/{i}", 10_000) for i in range(20)]
        daemon.freeze()
        code = COMMON + (
            "begin = time.monotonic()\n"
            "for path in paths: check(open(path, 'rb').read())\n"
            "print(time.monotonic() - begin)"
        )
        # Once 250 ms; else it would be 5 s.
        assert 0.2 < float(daemon.python(code, *paths)) < 3


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_reader_that_asks_gets_a_copy_without_opening_the_source(tmp_path, when):
    def answer(daemon, path):
        daemon.place(path, content(LARGE))
        return b"WWC" if when == "meanwhile" else b"C"

    with StandIn(tmp_path, flags=StateFlag.FILLS | StateFlag.ASKS, answer=answer) as daemon:
        files = itertools.count()

        def read() -> None:
            # Another one each time, for which this may answer in time.
            daemon.said.clear()
            daemon.python(WHOLE_READ, make(daemon, f"set/{next(files)}", LARGE))

        def is_from_copy() -> bool:
            counts = daemon.said[-1].counts if daemon.said else ReaderCounts()
            return (counts.copy_opens, counts.source_opens, counts.waits) == (1, 0, 1)

        read_until(is_from_copy, read, 0)


@pytest.mark.parametrize("replies", [b"C", b"WC", b"WWC"])
def test_a_reply_that_comes_while_its_reader_does_not_run_is_not_late(tmp_path, replies):
    started = threading.Event()
    reader: subprocess.Popen[bytes]

    def answer(daemon, path):
        assert started.wait(DEADLINE)
        daemon.place(path, content(10_000))
        reader.send_signal(signal.SIGSTOP)
        # Of its 250 ms, none are left.
        threading.Timer(0.5, reader.send_signal, [signal.SIGCONT]).start()
        return replies

    def read() -> None:
        nonlocal reader
        started.clear()
        path = make(daemon, f"set/{next(files)}", 10_000)
        command = [sys.executable, "-S", "-c", WHOLE_READ, path]
        reader = subprocess.Popen(command, env=daemon.environment())
        started.set()
        assert reader.wait(DEADLINE) == 0

    files = itertools.count()
    with StandIn(tmp_path, flags=StateFlag.FILLS | StateFlag.ASKS, answer=answer) as daemon:
        # On a busy machine, this may itself be late.
        read_until(lambda: daemon.said and daemon.said[-1].counts.copy_opens == 1, read)


def follow(daemon):
    """Have a reader read what comes meanwhile; on a busy machine, a piece may be late for it."""
    for number in range(10):
        (daemon.folder / "go").unlink(missing_ok=True)
        path = make(daemon, f"set/{number}", LARGE)
        daemon.fetch(path, content(LARGE), pieces=20, seconds=0.5)
        daemon.python(COMMON + "go(); check(open(path, 'rb').read())", path)
        if daemon.said[-1].counts.growing_bytes >= LARGE * 0.9:
            return
    raise AssertionError(daemon.said[-1].counts)


def test_a_reader_follows_what_comes_from_another_node(tmp_path):
    with StandIn(tmp_path) as daemon:
        follow(daemon)
        assert daemon.said[-1].counts.waits > 0


def test_a_reader_follows_what_comes_though_there_is_room_for_no_other_copy(tmp_path):
    with StandIn(tmp_path, flags=StateFlag.FILLS | StateFlag.ASKS) as daemon:
        daemon.live(largest=0)
        follow(daemon)


@pytest.mark.parametrize("size", [LARGE, 70_001])
def test_a_copy_that_is_complete_before_the_first_read_is_read(tmp_path, size):
    """Its parts, for which the reader would look, have gone by then."""
    with StandIn(tmp_path, flags=StateFlag.FILLS | StateFlag.ASKS) as daemon:
        path = make(daemon, "set/file", size)
        daemon.fetch(path, content(size), pieces=2, seconds=0.01)
        partial = next(daemon.growing.glob("*.map"))
        code = COMMON + (
            "file = os.open(path, os.O_RDONLY)\n"
            "go()\n"
            "while os.path.exists(paths[1]): time.sleep(0.001)\n"
            "check(os.pread(file, 1000, 0) + os.read(file, 1 << 30)[1000:])\n"
            "os.lseek(file, 7, 0)\n"
            "assert len(mmap.mmap(file, 0, prot=mmap.PROT_READ)) == os.fstat(file).st_size\n"
        )
        daemon.python(code, path, partial)
        counts = daemon.said[-1].counts
        assert (counts.source_opens, counts.source_bytes) == (1, 0)
        assert counts.copy_opens >= 1


def test_a_reader_that_makes_no_copy_says_so_to_others_that_wait_for_it(tmp_path):
    with StandIn(tmp_path, flags=StateFlag.FILLS | StateFlag.ASKS) as daemon:
        daemon.live(largest=LARGE - 1)
        path = make(daemon, "set/file", LARGE)
        daemon.python(WHOLE_READ, path)
        assert daemon.kinds(path) == [MessageKind.ASK, MessageKind.CLOSED]


def test_a_reader_does_not_wait_for_what_does_not_come(tmp_path):
    with StandIn(tmp_path) as daemon:
        path = make(daemon, "set/file", LARGE)
        daemon.fetch(path, content(LARGE), pieces=50, seconds=0.01, most=100_000)
        code = COMMON + (
            "go()\n"
            "begin = time.monotonic()\n"
            "data = open(path, 'rb').read()\n"
            "took = time.monotonic() - begin\n"
            "check(data)\nprint(took)"
        )
        assert 0.15 < float(daemon.python(code, path)) < 2


def test_a_mapping_waits_for_a_copy_that_comes(tmp_path):
    with StandIn(tmp_path) as daemon:
        path = make(daemon, "set/file", LARGE)
        daemon.fetch(path, content(LARGE), pieces=10, seconds=0.2)
        code = COMMON + (
            "go()\n"
            "file = open(path, 'rb')\n"
            "file.seek(7)\n"
            "check(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[:])\n"
            "print(os.readlink(f'/proc/self/fd/{file.fileno()}'), file.tell(),"
            " os.get_inheritable(file.fileno()))"
        )
        printed = daemon.python(code, path).split()
        assert printed == [str(daemon.copy_of(path)), "7", "False"]


def test_readers_at_once_have_one_copy_made(daemon, path):
    code = COMMON + (
        "file = os.open(path, os.O_RDONLY)\n"
        "data = os.read(file, 30_011)\n"
        # A reader that came later could find the copy.
        "print('begun', flush=True)\nsys.stdin.readline()\n"
        "while piece := os.read(file, 30_011):\n"
        "    data += piece\n"
        "    time.sleep(0.002)\n"
        "check(data)"
    )
    readers = [
        subprocess.Popen(
            [sys.executable, "-S", "-c", code, path],
            env=daemon.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    assert [reader.stdout.readline() for reader in readers] == ["begun\n"] * 3
    for reader in readers:
        reader.stdin.write("\n")
        reader.stdin.flush()
    for reader in readers:
        reader.communicate(timeout=DEADLINE)
    assert [reader.returncode for reader in readers] == [0, 0, 0]
    daemon.hear_out()
    assert daemon.wait_for_copy(path).read_bytes() == path.read_bytes()
    assert daemon.kinds(path).count(MessageKind.READING) == 3


def test_of_a_reader_that_is_killed_the_daemon_knows_what_it_has_read(daemon, path):
    code = COMMON + (
        "file = os.open(path, os.O_RDONLY)\n"
        "os.read(file, 1_000_000)\nprint('read', flush=True)\ntime.sleep(60)"
    )
    reader = subprocess.Popen(
        [sys.executable, "-S", "-c", code, path],
        env=daemon.environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert reader.stdout.readline() == "read\n"
    stop(reader)
    while str(path) not in daemon.units:
        time.sleep(0.01)
    assert daemon.units[str(path)].count(b"\1") == 1_000_000 // 4096
    assert not daemon.copy_of(path).exists()
    daemon.python(WHOLE_READ, path)
    assert daemon.wait_for_copy(path).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("change", ["truncated", "replaced", "deleted", "rewritten"])
def test_a_source_that_changes_while_it_is_read_is_read_as_without_the_shim(daemon, path, change):
    code = COMMON + (
        "file = os.open(path, os.O_RDONLY)\n"
        "first = os.read(file, 1_000_000)\n"
        "print('read', flush=True)\nsys.stdin.readline()\n"
        "while piece := os.read(file, 100_000): first += piece\n"
        "print(len(first), hashlib.sha256(first).hexdigest())"
    )
    told = {}
    for with_shim in (False, True):
        path = make(daemon, f"set/{with_shim}", LARGE)
        reader = subprocess.Popen(
            [sys.executable, "-S", "-c", code, path],
            env=daemon.environment() if with_shim else None,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert reader.stdout.readline() == "read\n"
        if change == "truncated":
            os.truncate(path, 1_500_000)
        elif change == "deleted":
            path.unlink()
        elif change == "replaced":
            other = path.with_name("other")
            other.write_bytes(content(LARGE, 2))
            other.rename(path)
        else:
            path.write_bytes(content(LARGE, 3))
        told[with_shim] = reader.communicate("\n", timeout=DEADLINE)[0]
    assert told[True] == told[False]


CHANGES = {
    "write": "open(path, 'r+b').write(b'new')",
    "append": "open(path, 'ab').write(b'new')",
    "truncate": "os.truncate(path, 10)",
    "rename away": "os.rename(path, path + '.away'); open(path, 'wb').write(b'new')",
    "rename over": "open(path + '.x', 'wb').write(b'new'); os.replace(path + '.x', path)",
    "rename over, same status": (
        "old = os.stat(path)\n"
        "open(path + '.x', 'wb').write(b'x' * old.st_size)\n"
        "os.utime(path + '.x', ns=(old.st_atime_ns, old.st_mtime_ns))\n"
        "os.replace(path + '.x', path)"
    ),
    "write, same status": (
        "old = os.stat(path)\n"
        "file = open(path, 'r+b', buffering=0)\n"
        "file.write(b'new')\n"
        "os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))"
    ),
    "map": (
        "with open(path, 'r+b') as file, mmap.mmap(file.fileno(), 0) as data:\n"
        "    data[:3] = b'new'\n"
        "    data.flush()"
    ),
    "unlink": "os.unlink(path); open(path, 'xb').write(b'new')",
    "folder": (
        "folder = os.path.dirname(path)\n"
        "os.rename(folder, folder + '.old'); os.mkdir(folder); open(path, 'wb').write(b'new')"
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("who", ["the reader", "another program"])
def test_after_a_change_of_the_source_no_open_gets_an_old_byte(daemon, path, change, who):
    marked(daemon, path)
    before = path.stat()
    program = COMMON + (
        "assert open(path, 'rb').read(1) == b'\\0'\n"
        "print('read', flush=True)\nsys.stdin.readline()\n"
        f"{CHANGES[change] if who == 'the reader' else ''}\n"
        "sys.stdout.buffer.write(open(path, 'rb').read())"
    )
    with subprocess.Popen(
        [sys.executable, "-S", "-c", program, path],
        env=daemon.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as reader:
        assert reader.stdout.readline() == b"read\n"
        if who == "another program":
            code = COMMON + CHANGES[change]
            subprocess.run([sys.executable, "-S", "-c", code, path], check=True)
        printed, _ = reader.communicate(b"\n", timeout=DEADLINE)
    if change == "map" and path.stat().st_ctime_ns == before.st_ctime_ns:
        assert path.read_bytes()[:3] == b"new"
        pytest.skip("on this file system, a write to a mapping changes no status")
    assert printed == path.read_bytes()


def test_no_open_gets_an_old_byte_while_another_program_changes_the_file(daemon):
    """Of each version but the last there is a copy when the next one is written."""
    other = daemon.make("set/other", b"other")
    path = daemon.make("set/file", b"00000")

    def rewrite(text):
        path.write_text(text)

    def rewrite_in_place(text):
        with path.open("r+") as file:
            file.write(text)

    def rename_over(text):
        other.write_text(text)
        os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        other.replace(path)

    changes = (rewrite, rewrite_in_place, rename_over)
    code = COMMON + (
        "for line in sys.stdin:\n    print(open(path, 'rb').read().decode(), flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-S", "-c", code, path],
        env=daemon.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        for number in range(1, 501):
            daemon.place(daemon.make("set/file", path.read_bytes()), path.read_bytes())
            changes[number % len(changes)](f"{number:05}")
            reader.stdin.write("\n")
            reader.stdin.flush()
            assert reader.stdout.readline() == f"{number:05}\n"
        reader.stdin.close()


def test_a_program_may_close_all_descriptors_and_reuse_their_numbers(daemon, path):
    other = make(daemon, "set/other", LARGE)
    code = COMMON + (
        "file = os.open(path, os.O_RDONLY)\n"
        "check(os.read(file, 500_000), 500_000)\n"
        # Not by close(): as programs do it that are statically linked, or start daemons.
        "import ctypes\n"
        "assert ctypes.CDLL(None).syscall(436, 3, 2**32 - 1, 0) == 0\n"
        "scratch = paths[1].replace('/source/', '/expected/') + '.scratch'\n"
        "names = [os.open(scratch, os.O_RDWR | os.O_CREAT) for _ in range(1000)]\n"
        "numbers = set(names)\n"
        "os.write(names[0], b'scratch')\n"
        "assert file in numbers\n"
        "os.close(file)\n"
        "again = os.open(path, os.O_RDONLY)\n"
        "check(os.pread(again, 10_000_000, 0))\n"
        "assert open(scratch, 'rb').read() == b'scratch'\n"
    )
    daemon.python(code, path, other)


def test_numbers_that_a_program_duplicates_over_are_other_files(daemon, path):
    other = daemon.make("set/other", content(LARGE, 9))
    code = COMMON + (
        "file, other = os.open(path, os.O_RDONLY), os.open(paths[1], os.O_RDONLY)\n"
        "check(os.read(file, 100_000), 100_000)\n"
        "second = os.read(other, 200_000)\n"
        "os.dup2(other, file)\n"
        "assert os.read(file, 1000) == open(paths[1], 'rb').read()[200_000:201_000]\n"
        "assert os.lseek(other, 0, os.SEEK_CUR) == 201_000\n"
        "third = os.dup(other)\n"
        "assert os.lseek(third, 0, os.SEEK_SET) == 0\n"
        "data = b''\n"
        "while piece := os.read(other, 70_000) + os.read(third, 70_000): data += piece\n"
        "assert data == open(paths[1], 'rb').read()\n"
    )
    daemon.python(code, path, other)


def test_forked_processes_share_a_position(daemon, path):
    code = COMMON + (
        "file = os.open(path, os.O_RDONLY)\n"
        "data = os.read(file, 100_000)\n"
        "ends = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.write(ends[1], os.read(file, 50_000))\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "os.close(ends[1])\n"
        "while piece := os.read(ends[0], 1_000_000): data += piece\n"
        "while piece := os.read(file, 1_000_000): data += piece\n"
        "check(data)\n"
    )
    daemon.python(code, path)


def test_a_child_with_closed_descriptors_does_not_disturb_its_parent(daemon, path):
    code = COMMON + (
        "file = os.open(path, os.O_RDONLY)\n"
        "data = os.read(file, 100_000)\n"
        "subprocess.run(['true'], check=True, close_fds=True)\n"
        "data += subprocess.run(['head', '-c', '70000'], stdin=file, check=True,"
        " stdout=subprocess.PIPE).stdout\n"
        "os.lseek(file, 170_000, os.SEEK_SET)\n"
        "check(data, 170_000)\n"
        "while piece := os.read(file, 1_000_000): data += piece\n"
        "check(data)\n"
    )
    daemon.python(code, path)


def test_a_program_may_have_as_many_files_as_without_the_shim(daemon):
    paths = [make(daemon, f"set/{i}", 2_000_000) for i in range(70)]
    code = COMMON + (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))\n"
        "files = []\n"
        "for path in paths:\n"
        "    files.append(os.open(path, os.O_RDONLY))\n"
        "    os.pread(files[-1], 1000, 5000)\n"
        "files.append(os.open('/dev/null', os.O_RDONLY))\n"
        "print(len(files))\n"
    )
    assert daemon.python(code, *paths).strip() == "71"


def test_ten_thousand_open_files(daemon):
    for i in range(100):
        daemon.make(f"set/{i}", content(5000, i))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < 10_100:
        pytest.skip(f"at most {most} files may be open")
    code = COMMON + (
        "import resource\n"
        "most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))\n"
        "files = [os.open(f'{path}/{i % 100}', os.O_RDONLY) for i in range(10_000)]\n"
        "expected = [os.pread(each, 10_000, 0) for each in files[:100]]\n"
        "for i, file in enumerate(files):\n"
        "    assert os.read(file, 2500) + os.read(file, 9999) == expected[i % 100]\n"
        "for file in files: os.close(file)\n"
        "assert len(os.listdir('/proc/self/fd')) < 20\n"
    )
    daemon.python(code, daemon.source / "set")


@pytest.mark.parametrize("limit", [0, 300, 1_000_000])
def test_a_limit_on_the_size_of_files_kills_nobody(daemon, path, limit):
    code = COMMON + (
        "import resource\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "check(open(path, 'rb').read())\n"
    )
    daemon.python(code, path)
    # The map is a file, too: a small one.
    assert daemon.copy_of(path).exists() == (limit == 1_000_000)


def test_a_small_file_is_copied_whatever_the_limit_on_the_size_of_files(daemon):
    path = make(daemon, "set/small", 100_000)
    code = COMMON + (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "check(open(path, 'rb').read())\n"
    )
    daemon.python(code, path)
    assert daemon.wait_for_copy(path).read_bytes() == content(100_000)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
@pytest.mark.parametrize("size", [500_000, LARGE], ids=["small", "large"])
def test_a_full_disk_ends_the_copy_and_not_the_reader(tmp_path, size):
    (tmp_path / "store").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k,mode=755", "none", str(tmp_path / "store")]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("file systems cannot be mounted here")
    try:
        with StandIn(tmp_path) as daemon:
            path = make(daemon, "set/file", size)
            daemon.python(WHOLE_READ, path)
            assert not daemon.copy_of(path).exists()
            assert not list(daemon.growing.iterdir())
    finally:
        subprocess.run(["umount", "-l", str(tmp_path / "store")], check=True)


def test_readers_need_no_folder_of_partial_copies(daemon, path):
    shutil.rmtree(daemon.store / "growing")
    daemon.python(WHOLE_READ, path)
    assert daemon.kinds(path) == [MessageKind.READING, MessageKind.CLOSED]


@pytest.mark.parametrize(
    "name", ["a\nb\n", "b" * 250, "\udcff\udcfe", " ", "tab\tname", "'\"$(x)"], ids=repr
)
def test_names_may_be_anything(daemon, name):
    path = make(daemon, f"set/{name[:240]}", LARGE)
    daemon.python(WHOLE_READ, path)
    assert daemon.wait_for_copy(path).read_bytes() == path.read_bytes()
    daemon.python(WHOLE_READ, path)


@pytest.mark.parametrize("levels", [4, 17, 19], ids=["copied", "too long a copy", "4 kB"])
def test_long_paths(daemon, levels):
    """The path of a copy is longer than the source's, and may be too long for the kernel."""
    room = 4090 - len(str(daemon.source)) if levels == 19 else 10_000
    name = "/".join(["d" * 205] * levels)[: room - 2].rstrip("/") + "/f"
    data = content(100_000)
    folder = os.open(daemon.source, os.O_RDONLY)
    *folders, last = name.split("/")
    for each in folders:
        os.mkdir(each, dir_fd=folder)
        inner = os.open(each, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    file = os.open(last, os.O_WRONLY | os.O_CREAT, dir_fd=folder)
    os.write(file, data)
    os.utime(file, (1_000_000, 1_000_000))
    os.close(file)
    os.close(folder)
    path = f"{daemon.source}/{name}"
    code = "import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())"
    for _ in range(2):
        assert daemon.python(code, path).strip() == hashlib.sha256(data).hexdigest()
        if levels == 4:
            daemon.wait_for_copy(path)


def test_other_ways_to_write_a_path(daemon, path):
    copied(daemon, path).write_bytes(b"copy" * (LARGE // 4))
    code = COMMON + (
        "folder, name = os.path.split(path)\n"
        "outer, inner = os.path.split(folder)\n"
        "reads = lambda way: open(way, 'rb').read(4) == b'copy'\n"
        "print(*map(int, map(reads, [path, folder + '//' + name, folder + '/./' + name,"
        " outer + '/.//' + inner + '/' + name, folder + '/../' + inner + '/' + name])))\n"
        "os.chdir(folder)\nprint(int(reads(name)), int(reads('./' + name)))\n"
        "os.chdir('/')\nprint(int(reads(path[1:])))\n"
        "inside = os.open(folder, os.O_RDONLY)\n"
        "print(os.read(os.open(name, os.O_RDONLY, dir_fd=inside), 4) == b'copy')\n"
    )
    assert daemon.python(code, path) == "1 1 1 1 0\n1 1\n1\nFalse\n"


def test_links_out_of_the_source_are_followed_as_without_the_shim(daemon, path, tmp_path):
    (tmp_path / "out").write_bytes(b"outside")
    os.utime(tmp_path / "out", (1_000_000, 1_000_000))
    link = daemon.source / "link"
    link.symlink_to(tmp_path / "out")
    code = COMMON + (
        "print(open(path, 'rb').read(), os.path.islink(path), os.lstat(path).st_size ==\n"
        " len(os.readlink(path)))\n"
        "try: os.open(path, os.O_RDONLY | os.O_NOFOLLOW)\n"
        "except OSError as error: print(error.errno)\n"
    )
    told = "b'outside' True True\n40\n"
    assert daemon.python(code, link) == told
    copy = daemon.wait_for_copy(link)
    assert daemon.python(code, link) == told
    copy.write_bytes(b"copied!")
    assert daemon.python(code, link) == told.replace("outside", "copied!")
    # What counts is the file behind the link.
    (tmp_path / "out").write_bytes(b"changed")
    assert daemon.python(code, link) == told.replace("outside", "changed")


def test_folders_are_the_sources(daemon, path):
    copied(daemon, path)
    code = COMMON + (
        "print(sorted(os.listdir(path)), sorted(os.listdir(os.open(path, os.O_RDONLY))))\n"
        "print(os.path.isdir(path), os.stat(path).st_ino)\n"
    )
    expected = f"['file'] ['file']\nTrue {path.parent.stat().st_ino}\n"
    assert daemon.python(code, path.parent) == expected


def test_files_that_were_modified_lately_are_not_copied(daemon):
    path = make(daemon, "set/file", LARGE)
    os.utime(path)
    daemon.python(WHOLE_READ, path)
    assert daemon.kinds(path) == []


def test_a_signal_handler_may_read_the_file_that_it_interrupts(daemon, path):
    code = COMMON + (
        "import signal\n"
        "file = os.open(path, os.O_RDONLY)\n"
        "read = []\n"
        "def handle(*_): read.append(len(os.read(file, 100)))\n"
        "signal.signal(signal.SIGALRM, handle)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n"
        "while piece := os.read(file, 1000): read.append(len(piece))\n"
        "signal.setitimer(signal.ITIMER_REAL, 0)\n"
        "print(sum(read))\n"
    )
    assert daemon.python(code, path).strip() == str(LARGE)


def test_a_shim_without_its_variable_does_nothing(daemon, path):
    environment = daemon.environment()
    for text in ("", "store=/x", "nonsense", "socket=relative", f"socket={daemon.folder}/none"):
        environment["TF_MALLEABLE_TIER"] = text
        subprocess.run([sys.executable, "-S", "-c", WHOLE_READ, path], env=environment, check=True)
    assert daemon.said == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
@pytest.mark.parametrize("size", [200_000, LARGE], ids=["small", "large"])
def test_an_error_of_the_source_reaches_the_program_and_no_copy_is_made(daemon, size):
    code = (
        "import os, sys\n"
        "file, read = os.open(sys.argv[1], os.O_RDONLY), 0\n"
        "try:\n"
        "    while piece := os.read(file, 50_000): read += len(piece)\n"
        "except OSError as error: print(read, error.errno)\n"
        "print(len(os.pread(file, 1000, 10)))"
    )
    path = daemon.source / "file"
    told = {}
    for with_shim in (False, True):
        source = FuseSource({"file": content(size)})
        source.fails_from = size // 2
        with mounted(source, daemon.source):
            if with_shim:
                told[with_shim] = daemon.python(code, path)
                assert MessageKind.WHOLE not in daemon.kinds(path)
                assert not daemon.copy_of(path).exists()
                source.fails_from = None
                assert daemon.python("import sys; print(len(open(sys.argv[1], 'rb').read()))", path)
                assert daemon.wait_for_copy(path).read_bytes() == content(size)
            else:
                done = subprocess.run(
                    [sys.executable, "-S", "-c", code, path], stdout=subprocess.PIPE, check=True
                )
                told[with_shim] = done.stdout.decode()
    assert told[True] == told[False]
    assert told[True].split()[1:] == [str(errno.EIO), "1000"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("closed", ["file", "folder", "folder above"])
def test_a_copy_is_none_for_a_user_who_may_not_open_the_source_any_more(closed):
    folder = Path(tempfile.mkdtemp(prefix="tfm-shim-"))  # Others may not enter pytest's own.
    try:
        folder.chmod(0o755)
        shutil.copy(tier_stand_in.SHIM, folder / "shim.so")
        with StandIn(folder) as daemon:
            path = make(daemon, "set/inner/file", LARGE)
            daemon.uid = uid = 4001
            daemon.own = daemon.store / "private" / str(uid)
            daemon.own.mkdir(mode=0o711)
            copy = daemon.place(path, bytes(LARGE))
            os.chown(copy, uid, uid)
            environment = {**daemon.environment(), "LD_PRELOAD": str(folder / "shim.so")}
            code = (
                "import sys\n"
                "try: print(open(sys.argv[1], 'rb').read(1))\n"
                "except PermissionError: print('closed')\n"
            )

            def read():
                return subprocess.run(
                    ["/usr/bin/python3", "-S", "-c", code, path],
                    env=environment, user=uid, group=uid, extra_groups=[], check=True,
                    stdout=subprocess.PIPE, text=True,
                ).stdout  # fmt: skip

            assert read() == "b'\\x00'\n"
            {"file": path, "folder": path.parent, "folder above": path.parents[1]}[closed].chmod(0)
            assert read() == "closed\n"
    finally:
        shutil.rmtree(folder)


URING = """
import ctypes, os, struct, sys
path, size = sys.argv[1], int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
told = ctypes.create_string_buffer(120)
ring = libc.syscall(425, 4, told)
if ring < 0:
    print("none")
    sys.exit()
sq, cq = struct.unpack_from("<10I", told, 40), struct.unpack_from("<10I", told, 80)
shared = dict(length=65536, prot=3, flags=1)
rings = libc.mmap(None, 65536, 3, 0x8001, ring, 0)
entries = libc.mmap(None, 4 * 64, 3, 0x8001, ring, 0x10000000)
word = lambda at: ctypes.c_uint32.from_address(at)
file = os.open(path, os.O_RDONLY)
data = ctypes.create_string_buffer(size)
entry = struct.pack("<BBHiQQIIQHHiQQ", 22, 0, 0, file, 0, ctypes.addressof(data), size, 0, 0, 0, 0,
                    0, 0, 0)
ctypes.memmove(entries, entry, 64)
word(rings + sq[6]).value = 0
word(rings + sq[1]).value += 1
assert libc.syscall(426, ring, 1, 1, 1, None, 0) == 1
got = ctypes.c_int32.from_address(rings + cq[5] + 8).value
assert got == size, got
sys.stdout.buffer.write(data.raw)
"""


def test_reads_that_the_shim_does_not_see_get_the_sources_bytes(daemon, path):
    """By io_uring, while another program has filled half of the copy."""
    half = COMMON + (
        "file = os.open(path, os.O_RDONLY)\n"
        "os.read(file, 1_500_000)\nprint('read', flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-S", "-c", half, path],
        env=daemon.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "read\n"
        done = subprocess.run(
            [sys.executable, "-S", "-c", URING, path, str(LARGE)],
            env=daemon.environment(),
            stdout=subprocess.PIPE,
            check=True,
        )
        other.communicate("", timeout=DEADLINE)
    if done.stdout == b"none\n":
        pytest.skip("this kernel has no io_uring")
    assert done.stdout == path.read_bytes()
