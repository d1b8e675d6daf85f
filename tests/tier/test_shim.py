# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What programs read through the shim: the source's bytes, whatever there is of a copy."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess

import pytest

from tests.support.tier_stand_in import (
    ASKS,
    CLOSED,
    FILLS,
    FULL,
    GROWING,
    TAKES,
    UNSEEN,
    WHOLE,
    StandIn,
)
from tf_malleable.tier.store import blocks, layout

SMALL, LARGE = 100_001, 5_000_003
READERS = {
    "read": "print(hashlib.sha256(open(path, 'rb').read()).hexdigest())",
    "pieces": """
digest = hashlib.sha256()
with open(path, 'rb') as file:
    while piece := file.read(12_345):
        digest.update(piece)
print(digest.hexdigest())""",
    "readinto": """
data, digest = bytearray(70_001), hashlib.sha256()
with open(path, 'rb', buffering=0) as file:
    while size := file.readinto(data):
        digest.update(memoryview(data)[:size])
print(digest.hexdigest())""",
    "pread": """
file = os.open(path, os.O_RDONLY)
size = os.fstat(file).st_size
data = bytearray(size)
begins = list(range(0, size, 9_001))
random.Random(1).shuffle(begins)
for begin in begins:
    data[begin:begin + 9_001] = os.pread(file, 9_001, begin)
print(hashlib.sha256(data).hexdigest())""",
    "preadv": """
file = os.open(path, os.O_RDONLY)
size = os.fstat(file).st_size
parts = [bytearray(size // 3), bytearray(size // 3), bytearray(size - size // 3 * 2)]
assert os.preadv(file, parts, 0) == size
print(hashlib.sha256(b''.join(parts)).hexdigest())""",
    "readv": """
file = os.open(path, os.O_RDONLY)
size = os.fstat(file).st_size
parts = [bytearray(size // 3), bytearray(), bytearray(size - size // 3)]
assert os.readv(file, parts) == size
print(hashlib.sha256(b''.join(parts)).hexdigest())""",
    "mmap": """
with open(path, 'rb') as file:
    print(hashlib.sha256(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)).hexdigest())""",
    "threads": """
file = os.open(path, os.O_RDONLY)
size = os.fstat(file).st_size
data = bytearray(size)
def fill(first):
    for begin in range(first * 8192, size, 8 * 8192):
        data[begin:begin + 8192] = os.pread(file, 8192, begin)
threads = [threading.Thread(target=fill, args=[i]) for i in range(8)]
[each.start() for each in threads]
[each.join() for each in threads]
print(hashlib.sha256(data).hexdigest())""",
    "seeks": """
with open(path, 'rb', buffering=0) as file:
    size = file.seek(0, 2)
    data = bytearray(size)
    for begin in reversed(range(0, size, 50_000)):
        assert file.seek(begin) == begin
        data[begin:begin + 50_000] = file.read(50_000)
        assert file.tell() == min(begin + 50_000, size)
print(hashlib.sha256(data).hexdigest())""",
}
IMPORTS = "import hashlib, mmap, os, random, sys, threading\npath = sys.argv[1]\n"


def content(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def daemon(tmp_path):
    with StandIn(tmp_path) as started:
        yield started


@pytest.mark.slow
@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_every_reader_gets_the_sources_bytes_cold_and_from_a_copy(daemon, size):
    paths = {name: daemon.make(f"set/{name}", content(size, i)) for i, name in enumerate(READERS)}
    code = "import hashlib, mmap, os, random, sys, threading\n" + "".join(
        f"path = {str(paths[name])!r}\n{reader}\n" for name, reader in READERS.items()
    )
    expected = [digest(path.read_bytes()) for path in paths.values()]
    assert daemon.python(code).split() == expected
    for name in ("read", "pieces", "readinto", "preadv", "readv"):
        daemon.wait_for_copy(paths[name])
    assert daemon.python(code).split() == expected
    assert daemon.said[-1].sums.copy_opens >= 5


@pytest.mark.parametrize(("size", "kind"), [(SMALL, WHOLE), (LARGE, FULL)])
def test_what_a_reader_reads_fills_the_copy_and_the_next_one_opens_it(daemon, size, kind):
    data = content(size)
    path = daemon.make("set/file", data)
    daemon.python(IMPORTS + READERS["pieces"], path)
    daemon.wait_for(path, kind)
    copy = daemon.wait_for_copy(path)
    assert copy.read_bytes() == data
    # Were it opened again, this would be read.
    path.write_bytes(bytes(size))
    assert daemon.python(IMPORTS + READERS["read"], path).strip() == digest(data)
    assert daemon.said[-1].sums.copy_opens == 1
    assert daemon.said[-1].sums.copy_bytes == size


@pytest.mark.parametrize("reader", ["pread", "threads"])
def test_a_copy_is_filled_in_any_order(daemon, reader):
    path = daemon.make("set/file", content(4096 * 2000 + 1))
    daemon.python(IMPORTS + READERS[reader].replace("9_001", "8192 * 4"), path)
    assert daemon.wait_for_copy(path).read_bytes() == path.read_bytes()


def test_a_file_that_is_read_in_part_has_no_copy(daemon):
    path = daemon.make("set/file", content(LARGE))
    daemon.python(IMPORTS + "file = open(path, 'rb'); file.read(100_000); file.close()", path)
    assert daemon.kinds(path) == [GROWING, CLOSED]
    assert not daemon.copy_of(path).exists()


def test_status_is_the_sources(daemon):
    path = daemon.make("set/file", content(SMALL))
    path.chmod(0o640)
    code = """
def all_of(about):
    return about[:10], about.st_mtime_ns, about.st_ctime_ns, about.st_blocks, about.st_blksize
file = os.open(path, os.O_RDONLY)
print(all_of(os.stat(path)), all_of(os.fstat(file)), os.listxattr(file))
data = os.read(file, 1_000_000)"""
    cold = daemon.python(IMPORTS + code, path)
    daemon.wait_for_copy(path)
    assert daemon.python(IMPORTS + code, path) == cold
    assert daemon.said[-1].sums.copy_stats >= 1
    printed = daemon.run("stat", "--format=%d %i %s %a %Y", path)
    about = path.stat()
    expected = f"{about.st_dev} {about.st_ino} {SMALL} 640 {int(about.st_mtime)}\n"
    assert printed == expected


@pytest.mark.parametrize("command", ["cp", "cp -a", "tar"])
@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_cp_and_tar(daemon, tmp_path, command, size):
    path = daemon.make("set/file", content(size))
    for turn in ("cold", "copied"):
        if turn == "copied":
            daemon.python(IMPORTS + READERS["read"], path)
            daemon.wait_for_copy(path)
        target = tmp_path / turn
        target.mkdir()
        if command == "tar":
            daemon.run("tar", "-cf", target / "tar", "-C", path.parent, "file")
            daemon.run("tar", "-cf", target / "tar", path)
            subprocess.run(
                ["tar", "-xf", target / "tar", "-C", target, "--strip-components",
                 str(len(path.parts) - 2)], check=True, capture_output=True,
            )  # fmt: skip
        else:
            daemon.run(*command.split(), path, target)
        assert (target / "file").read_bytes() == path.read_bytes()
        assert os.listxattr(target / "file") == []
        if command != "cp":
            assert (target / "file").stat().st_mtime == path.stat().st_mtime


def test_a_mapped_file_is_left_to_the_daemon(daemon):
    path = daemon.make("set/file", content(LARGE))
    daemon.python(IMPORTS + READERS["mmap"], path)
    said = daemon.wait_for(path, UNSEEN)
    assert os.fstat(said.files[0]).st_ino == path.stat().st_ino
    assert daemon.kinds(path) == [UNSEEN]


def test_stdio_reads_a_copy_and_leaves_the_source_to_the_daemon(daemon):
    data = content(SMALL)
    path = daemon.make("set/file", data)
    # grep and wc read by themselves; od by fopen().
    printed = daemon.run("od", "-An", "-tx1", "-v", path)
    daemon.wait_for(path, UNSEEN)
    daemon.python(IMPORTS + READERS["read"], path)
    daemon.wait_for_copy(path)
    path.write_bytes(bytes(SMALL))
    assert daemon.run("od", "-An", "-tx1", "-v", path) == printed
    assert bytes.fromhex(printed) == data


@pytest.fixture
def roomy(tmp_path):
    with StandIn(tmp_path, flags=FILLS | TAKES) as started:
        yield started


@pytest.mark.parametrize("reader", ["read", "pieces", "preadv"])
@pytest.mark.parametrize("size", [7, 12_000, SMALL, 1 << 20])
def test_with_much_room_a_reader_hands_over_a_small_file(roomy, reader, size):
    path = roomy.make("set/inner/file", content(size))
    expected = digest(path.read_bytes())
    assert roomy.python(IMPORTS + READERS[reader], path).strip() == expected
    assert roomy.taken == [(str(path), 0)]
    assert roomy.kinds(path) == []
    copy = roomy.copy_of(path)
    assert copy.read_bytes() == path.read_bytes()
    identity = layout.identity_of(copy)
    assert identity.is_same(path.stat())
    assert identity.copy_inode == copy.stat().st_ino
    with copy.open("rb") as file:
        codes = tuple(blocks.checksums_of(file.fileno(), size))
        assert layout.codes_of(file.fileno(), size) == codes
    path.write_bytes(bytes(size))
    assert roomy.python(IMPORTS + READERS[reader], path).strip() == expected


def test_a_reader_hands_over_no_file_that_has_lost_its_name(roomy):
    path = roomy.make("set/file", content(SMALL))
    other = roomy.make("set/other", content(SMALL, 2))
    code = "file = open(path, 'rb')\nos.replace(sys.argv[2], path)\nfile.read()"
    # Not through the shim, which would drop the copy.
    code = code.replace("os.replace(", "ctypes.CDLL(None).syscall(82, os.fsencode(").replace(
        ", path)", "), os.fsencode(path))", 1
    )
    roomy.python(IMPORTS + "import ctypes\n" + code, path, other)
    assert other.exists() is False
    assert roomy.kinds(path) == [WHOLE]
    assert roomy.taken == []


def test_a_reader_does_not_hand_over_a_large_file(roomy):
    path = roomy.make("set/file", content(LARGE))
    roomy.python(IMPORTS + READERS["read"], path)
    assert roomy.kinds(path) == [GROWING, FULL]


def test_a_copy_of_another_version_is_replaced(roomy):
    path = roomy.make("set/file", content(SMALL))
    roomy.python(IMPORTS + READERS["read"], path)
    # As if the daemon had dropped its mark, but not removed it yet.
    roomy.copy_of(path).chmod(0)
    data = content(SMALL, 3)
    roomy.make("set/file", data)
    assert roomy.python(IMPORTS + READERS["read"], path).strip() == digest(data)
    assert roomy.taken == [(str(path), 0)] * 2
    assert roomy.copy_of(path).read_bytes() == data


def test_what_a_program_reads_and_changes_is_taken_back(roomy):
    path = roomy.make("set/file", content(SMALL))
    code = "open(path, 'rb').read()\nfile = open(path, 'r+b')\ntime.sleep(1)\nfile.write(b'new')"
    roomy.python(IMPORTS + "import time\n" + code, path)
    assert not roomy.copy_of(path).exists()


def test_a_forked_process_has_a_queue_of_its_own(roomy):
    paths = [roomy.make(f"set/{number}", content(SMALL, number)) for number in range(8)]
    code = """
for number, each in enumerate(sys.argv[1:]):
    if number % 2 == 0:
        child = os.fork()
    if (child == 0) == (number % 2 == 1):
        open(each, 'rb').read()
    if number % 2 == 1:
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
"""
    roomy.python(IMPORTS + code, *paths)
    assert sorted(path for path, _ in roomy.taken) == sorted(map(str, paths))
    for number, path in enumerate(paths):
        assert roomy.copy_of(path).read_bytes() == content(SMALL, number)


def test_of_files_in_a_folder_that_is_left_unasked_nobody_asks(tmp_path):
    with StandIn(tmp_path, flags=FILLS | ASKS) as daemon:
        asked = []
        daemon.answer = lambda _daemon, path: asked.append(path) or b"S"
        names = ("set", "set/inner", "set/inner/most", "other")
        paths = [daemon.make(f"{name}/file", content(SMALL)) for name in names]
        daemon.leave_unasked(daemon.source / "set")
        for path in paths:
            daemon.python(IMPORTS + READERS["read"], path)
        assert asked == list(map(str, paths[2:]))
