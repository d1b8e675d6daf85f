# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What programs read through the shim: the source's bytes, whatever there is of a copy."""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import subprocess
import sys

import pytest

from tests.support.deadline import DEADLINE
from tests.support.tier_stand_in import SHIM, StandIn
from tests.support.tiers import read_until
from tf_malleable.tier.protocol import SMALL_FILE_BYTES, MessageKind, StateFlag

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
    assert daemon.said[-1].counts.copy_opens >= 5


@pytest.mark.parametrize(
    ("size", "kind"), [(SMALL, MessageKind.WHOLE), (LARGE, MessageKind.READING)]
)
def test_what_a_reader_reads_is_copied_and_the_next_one_opens_the_copy(daemon, size, kind):
    data = content(size)
    path = daemon.make("set/file", data)
    daemon.python(IMPORTS + READERS["pieces"], path)
    daemon.wait_for(path, kind)
    copy = daemon.wait_for_copy(path)
    assert copy.read_bytes() == data
    # Only the copy has these bytes.
    copy.write_bytes(content(size, 2))
    assert daemon.python(IMPORTS + READERS["read"], path).strip() == digest(content(size, 2))
    counts = daemon.said[-1].counts
    assert (counts.copy_opens, counts.copy_bytes) == (1, size)
    assert (counts.source_bytes, daemon.kinds(path).count(kind)) == (0, 1)


@pytest.mark.parametrize("reader", ["pread", "threads"])
def test_a_copy_is_filled_in_any_order(daemon, reader):
    path = daemon.make("set/file", content(4096 * 2000 + 1))
    code = IMPORTS + READERS[reader].replace("9_001", "8192 * 4")
    if reader == "threads":
        # Each waits no more than 50 ms for one that begins the copy, and then leaves a gap.
        read_until(daemon.copy_of(path).exists, lambda: daemon.python(code, path))
    else:
        daemon.python(code, path)
    assert daemon.wait_for_copy(path).read_bytes() == path.read_bytes()


def test_a_file_that_is_read_in_part_has_no_copy(daemon):
    path = daemon.make("set/file", content(LARGE))
    code = "file = os.open(path, os.O_RDONLY)\nos.read(file, 100_000)\nos.close(file)"
    daemon.python(IMPORTS + code, path)
    assert daemon.kinds(path) == [MessageKind.READING, MessageKind.CLOSED]
    assert not daemon.copy_of(path).exists()
    units = -(-LARGE // 4096)
    assert daemon.units[str(path)] == (b"\1" * (100_000 // 4096)).ljust(units, b"\0")


def test_a_reader_sends_descriptors_of_the_source_and_of_a_map(daemon):
    path = daemon.make("set/file", content(LARGE))
    daemon.python(IMPORTS + READERS["pieces"], path)
    said = daemon.wait_for(path, MessageKind.READING)
    assert said.inodes[0] == path.stat().st_ino
    assert len(set(said.inodes)) == 2
    # The reader has written nothing: the copy is the daemon's.
    assert not list(daemon.growing.iterdir())


def test_status_is_the_sources(daemon):
    path = daemon.make("set/file", content(SMALL))
    path.chmod(0o640)
    code = """
def all_of(about):
    # Without the time of access, which is the source's own.
    times = about.st_mtime_ns, about.st_ctime_ns
    return *about[:7], *times, about.st_blocks, about.st_blksize, about.st_rdev
file = os.open(path, os.O_RDONLY)
assert all_of(os.stat(path)) == all_of(os.fstat(file))
print(all_of(os.fstat(file)), os.listxattr(file))
data = os.read(file, 1_000_000)"""
    cold = daemon.python(IMPORTS + code, path)
    daemon.wait_for_copy(path)
    assert daemon.python(IMPORTS + code, path) == cold
    assert daemon.said[-1].counts.copy_opens == 1
    told = "--format=%d %i %s %a %Y"
    about = path.stat()
    expected = f"{about.st_dev} {about.st_ino} {SMALL} 640 {int(about.st_mtime)}\n"
    assert daemon.run("stat", told, path) == expected
    # A descriptor that a program has not opened itself.
    assert daemon.run("sh", "-c", f'stat "{told}" - < "$0"', path) == expected


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
    assert daemon.kinds(path) == [MessageKind.UNSEEN]
    assert daemon.wait_for(path, MessageKind.UNSEEN).inodes == (path.stat().st_ino,)
    copy = daemon.wait_for_copy(path)
    assert copy.read_bytes() == content(LARGE)
    copy.write_bytes(content(LARGE, 2))
    assert daemon.python(IMPORTS + READERS["mmap"], path).strip() == digest(content(LARGE, 2))


def test_a_file_that_is_read_and_then_mapped_is_said_with_no_second_descriptor(daemon):
    path = daemon.make("set/file", content(LARGE))
    code = """
file = os.open(path, os.O_RDONLY)
os.read(file, 100_000)
mmap.mmap(file, 0, prot=mmap.PROT_READ)
mmap.mmap(file, 0, prot=mmap.PROT_READ)
os.close(file)"""
    daemon.python(IMPORTS + code, path)
    kinds = [MessageKind.READING, MessageKind.UNSEEN, MessageKind.CLOSED]
    assert daemon.kinds(path) == kinds
    assert daemon.wait_for(path, MessageKind.UNSEEN).inodes == ()
    assert daemon.wait_for_copy(path).read_bytes() == content(LARGE)


def test_a_mapping_gets_a_copy_that_was_made_after_the_file_was_opened(daemon):
    path = daemon.make("set/file", content(LARGE))
    code = """
file = os.open(path, os.O_RDONLY)
os.lseek(file, 7, os.SEEK_SET)
print("opened", flush=True)
sys.stdin.readline()
data = mmap.mmap(file, 0, prot=mmap.PROT_READ)[:]
about = os.fstat(file), os.stat(path)
assert about[0].st_ino == about[1].st_ino and about[0].st_size == about[1].st_size
print(hashlib.sha256(data).hexdigest(), os.lseek(file, 0, os.SEEK_CUR), os.get_inheritable(file))
"""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", IMPORTS + code, path],
        env=daemon.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as reader:  # fmt: skip
        assert reader.stdout.readline() == "opened\n"
        daemon.place(path, content(LARGE, 2))
        printed, _ = reader.communicate("\n", timeout=DEADLINE)
    assert printed.split() == [digest(content(LARGE, 2)), "7", "False"]


def test_of_a_file_that_goes_on_unseen_or_as_a_copy_the_reader_sends_nothing_more(daemon):
    stdio, swapped = (daemon.make(f"set/{number}", content(LARGE)) for number in range(2))
    code = """
for each in sys.argv[1:]:
    file = os.open(each, os.O_RDONLY)
    os.read(file, 100_000)
    if each == path:
        ctypes.CDLL(None).fdopen(file, b"r")
    else:
        print("read", flush=True)
        sys.stdin.readline()
        mmap.mmap(file, 0, prot=mmap.PROT_READ)
print("done", flush=True)
sys.stdin.readline()
"""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", "import ctypes\n" + IMPORTS + code, stdio, swapped],
        env=daemon.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as reader:  # fmt: skip
        assert reader.stdout.readline() == "read\n"
        daemon.place(swapped, content(LARGE))
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "done\n"
        # The reader still runs: it does not keep the daemon waiting, or its descriptors.
        daemon.wait_for(stdio, MessageKind.CLOSED)
        daemon.wait_for(swapped, MessageKind.CLOSED)
        reader.communicate("\n", timeout=DEADLINE)
    kinds = [MessageKind.READING, MessageKind.UNSEEN, MessageKind.CLOSED]
    assert daemon.kinds(stdio) == kinds
    kinds = [MessageKind.READING, MessageKind.CLOSED]
    assert [kind for kind in daemon.kinds(swapped) if kind != MessageKind.COUNTS] == kinds


def test_stdio_reads_a_copy_and_leaves_the_source_to_the_daemon(daemon):
    data = content(SMALL)
    path = daemon.make("set/file", data)
    # grep and wc read by themselves; od by fopen().
    printed = daemon.run("od", "-An", "-tx1", "-v", path)
    assert bytes.fromhex(printed) == data
    assert daemon.kinds(path) == [MessageKind.UNSEEN]
    daemon.wait_for_copy(path).write_bytes(content(SMALL, 2))
    assert bytes.fromhex(daemon.run("od", "-An", "-tx1", "-v", path)) == content(SMALL, 2)


@pytest.mark.parametrize("reader", ["read", "pieces", "preadv"])
@pytest.mark.parametrize("size", [7, 12_000, SMALL, SMALL_FILE_BYTES])
def test_a_small_file_is_sent_when_it_was_read(daemon, reader, size):
    path = daemon.make("set/inner/file", content(size))
    expected = digest(path.read_bytes())
    assert daemon.python(IMPORTS + READERS[reader], path).strip() == expected
    assert daemon.kinds(path) == [MessageKind.WHOLE]
    assert daemon.wait_for(path, MessageKind.WHOLE).inodes == (path.stat().st_ino,)
    assert daemon.copy_of(path).read_bytes() == path.read_bytes()
    assert daemon.python(IMPORTS + READERS[reader], path).strip() == expected
    assert daemon.kinds(path)[1:] in ([], [MessageKind.COUNTS])
    assert daemon.said[-1].counts.copy_opens == 1


def test_a_file_that_is_larger_by_a_byte_has_a_map(daemon):
    path = daemon.make("set/file", content(SMALL_FILE_BYTES + 1))
    daemon.python(IMPORTS + READERS["read"], path)
    assert daemon.kinds(path) == [MessageKind.READING, MessageKind.CLOSED]
    assert daemon.copy_of(path).exists()


@pytest.mark.parametrize(
    "reads",
    ["os.pread(file, 100, 50_000)", "os.read(file, 100)\nos.pread(file, 100, 101)"],
    ids=["from the middle", "with a gap"],
)
def test_a_small_file_that_is_read_in_another_order_is_left_to_the_daemon(daemon, reads):
    path = daemon.make("set/file", content(SMALL))
    code = f"file = os.open(path, os.O_RDONLY)\n{reads}\nos.pread(file, 1_000_000, 0)"
    daemon.python(IMPORTS + code, path)
    assert daemon.kinds(path) == [MessageKind.UNSEEN]
    assert daemon.wait_for(path, MessageKind.UNSEEN).inodes == (path.stat().st_ino,)
    assert daemon.copy_of(path).read_bytes() == content(SMALL)


def test_a_small_file_that_is_read_in_part_has_no_copy(daemon):
    path = daemon.make("set/file", content(SMALL))
    daemon.python(IMPORTS + "os.read(os.open(path, os.O_RDONLY), 50_000)", path)
    assert MessageKind.WHOLE not in daemon.kinds(path)
    assert MessageKind.UNSEEN not in daemon.kinds(path)


def test_threads_that_read_a_small_file_together_send_it_once(daemon):
    paths = [daemon.make(f"set/{number}", content(SMALL, number)) for number in range(50)]
    code = """
for each in sys.argv[1:]:
    file = os.open(each, os.O_RDONLY)
    size = os.fstat(file).st_size
    data, ready = bytearray(size), threading.Barrier(4)
    def fill(first):
        ready.wait()
        for begin in range(first * 1024, size, 4 * 1024):
            data[begin:begin + 1024] = os.pread(file, 1024, begin)
    threads = [threading.Thread(target=fill, args=[i]) for i in range(4)]
    [each.start() for each in threads]
    [each.join() for each in threads]
    print(hashlib.sha256(data).hexdigest())
"""
    printed = daemon.python(IMPORTS + code, *paths).split()
    assert printed == [digest(content(SMALL, number)) for number in range(50)]
    for path in paths:
        kinds = daemon.kinds(path)
        assert len([kind for kind in kinds if kind != MessageKind.COUNTS]) <= 1, kinds
        if MessageKind.WHOLE in kinds or MessageKind.UNSEEN in kinds:
            assert daemon.copy_of(path).read_bytes() == path.read_bytes()


def test_a_copy_of_another_version_is_replaced(daemon):
    path = daemon.make("set/file", content(SMALL))
    daemon.python(IMPORTS + READERS["read"], path)
    data = content(SMALL, 3)
    daemon.make("set/file", data)
    assert daemon.python(IMPORTS + READERS["read"], path).strip() == digest(data)
    assert daemon.kinds(path).count(MessageKind.WHOLE) == 2
    assert daemon.copy_of(path).read_bytes() == data


def test_each_process_sends_the_files_that_it_has_opened(daemon):
    paths = [daemon.make(f"set/{number}", content(SMALL, number)) for number in range(8)]
    code = """
print(os.getpid())
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
    parent = int(daemon.python(IMPORTS + code, *paths))
    for number, path in enumerate(paths):
        said = daemon.wait_for(path, MessageKind.WHOLE)
        assert (said.pid == parent) == (number % 2 == 0)
        assert daemon.copy_of(path).read_bytes() == content(SMALL, number)


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_a_forked_process_says_nothing_of_the_files_of_its_parent(daemon, size):
    path = daemon.make("set/file", content(size))
    code = """
file = os.open(path, os.O_RDONLY)
data = os.pread(file, 50_000, 0)
print(os.getpid(), flush=True)
child = os.fork()
if child == 0:
    os.pread(file, 10_000, 50_000)
    mmap.mmap(file, 0, prot=mmap.PROT_READ)
    os.dup(file)
    os.close(file)
    open(path + "2", "rb").read()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
os.close(file)
"""
    other = daemon.make("set/file2", content(SMALL))
    parent = int(daemon.python(IMPORTS + code, path))
    assert {each.pid for each in daemon.said if each.path == str(path)} <= {parent}
    assert daemon.wait_for(other, MessageKind.WHOLE).pid != parent
    # What the child has read is not in the map of the parent.
    if size == LARGE:
        assert daemon.units[str(path)].count(b"\1") == 50_000 // 4096


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_a_process_that_has_forked_goes_on_to_say_what_it_reads(daemon, size):
    path = daemon.make("set/file", content(size))
    code = """
file = os.open(path, os.O_RDONLY)
digest = hashlib.sha256(os.read(file, 10_000))
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
while piece := os.read(file, 10_000):
    digest.update(piece)
print(digest.hexdigest())
"""
    assert daemon.python(IMPORTS + code, path).strip() == digest(content(size))
    assert daemon.copy_of(path).read_bytes() == content(size)


def test_a_process_that_has_forked_says_that_it_maps_a_file(daemon):
    path = daemon.make("set/file", content(LARGE))
    code = """
file = os.open(path, os.O_RDONLY)
os.read(file, 10_000)
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
mmap.mmap(file, 0, prot=mmap.PROT_READ)
"""
    daemon.python(IMPORTS + code, path)
    assert MessageKind.UNSEEN in daemon.kinds(path)
    assert daemon.copy_of(path).read_bytes() == content(LARGE)


def test_of_files_in_a_folder_that_is_left_unasked_nobody_asks(tmp_path):
    with StandIn(tmp_path, flags=StateFlag.FILLS | StateFlag.ASKS) as daemon:
        asked = []
        daemon.answer = lambda _daemon, path: asked.append(path) or b"S"
        names = ("set", "set/inner", "set/inner/most", "other")
        paths = [daemon.make(f"{name}/file", content(SMALL)) for name in names]
        daemon.leave_unasked(daemon.source / "set")
        for path in paths:
            daemon.python(IMPORTS + READERS["read"], path)
        assert asked == list(map(str, paths[2:]))


REOPEN = """
import os, sys
path, own, other = sys.argv[1:]
def show():
    with open(path, "rb") as file:
        print(file.read(5).decode())
def numbers():
    links = {int(each): f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd")}
    return [each for each, link in links.items() if os.path.realpath(link) == own]
show()
assert numbers()
for each in numbers():
    os.closerange(each, each + 1)
show()
for each in numbers():
    os.dup2(os.open(other, os.O_RDONLY), each)
show()"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file to another user")
def test_what_another_user_has_put_in_a_folder_that_the_program_has_open_is_no_copy(daemon):
    path = daemon.make("set/file", b"right" * 1000)
    copy = daemon.place(path, b"saved" * 1000)
    planted = daemon.folder / f"other{path}"
    planted.parent.mkdir(parents=True)
    planted.write_bytes(b"wrong" * 1000)
    os.utime(planted, ns=(0, copy.stat().st_mtime_ns))
    os.chown(planted, 12345, 12345)
    found = daemon.python(REOPEN, path, daemon.own, daemon.folder / "other").split()
    assert found == ["saved", "saved", "right"]


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf")
def test_the_shim_needs_no_constructor_but_its_own():
    """Hooks may be called before any constructor of the shim has run."""
    found = subprocess.run(
        ["readelf", "--wide", "--section-headers", SHIM], capture_output=True, text=True, check=True
    ).stdout
    sizes = dict(re.findall(r"\] (\.\S+) +\S+ +\S+ +\S+ ([0-9a-f]+)", found))
    # The compiler's frame_dummy, and Load() of hooks_open.cc.
    assert int(sizes[".init_array"], 16) == 2 * 8
    assert ".ctors" not in sizes
