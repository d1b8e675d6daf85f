# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Calls by a descriptor about the file itself do through the tier what they do without it.

Each program is run twice on a file with a complete copy, without the shim and with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.deadline import DEADLINE
from tests.support.tier_stand_in import StandIn
from tf_malleable.tier.protocol import StateFlag

OLD = 1_000_000_000
DATA = bytes(range(256)) * 400
SMALL = len(DATA)
# other() runs code in a process without the shim, and returns what it printed.
BEGIN = """
import ctypes, errno, fcntl, os, stat, struct, subprocess, sys, time
path = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
def other(code):
    code = 'import errno, fcntl, os, sys\\npath = sys.argv[1]\\n' + code
    kept = {k: v for k, v in os.environ.items() if k not in ('LD_PRELOAD', 'TF_MALLEABLE_TIER')}
    words = [sys.executable, '-S', '-c', code, path]
    done = subprocess.run(words, env=kept, capture_output=True, text=True)
    return done.stdout.strip() + ''.join(done.stderr.strip().splitlines()[-1:])
def attempt(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
ATTEMPT = '''
def attempt(call, *arguments):
    try:
        print(call(*arguments))
    except OSError as error:
        print(errno.errorcode[error.errno])
'''
def write_lock():
    return other(ATTEMPT + '''
file = os.open(path, os.O_RDWR)
attempt(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
attempt(fcntl.lockf, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
''').split()
file = os.open(path, os.O_RDONLY)
"""


@pytest.fixture
def daemon(tmp_path):
    with StandIn(tmp_path) as started:
        yield started


def copied(daemon: StandIn, name: str = "set/file", data: bytes = DATA) -> Path:
    """Make a file of the source with a complete copy."""
    path = daemon.make(name, data)
    daemon.python("import sys\nopen(sys.argv[1], 'rb').read()", path)
    daemon.wait_for_copy(path)
    return path


def plain(code: str, *arguments: object, python: str = sys.executable) -> str:
    """Run Python without the shim; returns what it printed."""
    result = subprocess.run(
        [python, *(["-S"] if "h5py" not in code else []), "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def both(daemon: StandIn, code: str, read: bool = True) -> tuple[str, str]:
    """Run a program on a file with a copy; returns what it prints with the shim and without it."""
    expected = plain(BEGIN + code, daemon.make("plain/file", DATA))
    path = copied(daemon)
    opens = daemon.said[-1].counts.copy_opens
    assert opens == 0
    printed = daemon.python(BEGIN + code, path)
    assert daemon.said[-1].counts.copy_opens >= 1, "the program has not opened the copy"
    assert printed
    if read:
        assert daemon.copy_of(path).read_bytes() == DATA
    return printed, expected


LOCKS = {
    "flock": "fcntl.flock(file, fcntl.LOCK_SH)\nprint(write_lock())",
    "lockf": "fcntl.lockf(file, fcntl.LOCK_SH)\nprint(write_lock())",
    "open file description": """
lock = struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0)
fcntl.fcntl(file, 37, lock)
print(write_lock())""",
    "given back": """
fcntl.flock(file, fcntl.LOCK_SH)
fcntl.flock(file, fcntl.LOCK_UN)
print(write_lock())""",
    "of a writer": """
writer = subprocess.Popen([sys.executable, '-S', '-c', '''
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(file, fcntl.LOCK_EX)
fcntl.lockf(file, fcntl.LOCK_EX, 7, 3)
print('locked', flush=True)
sys.stdin.read()''', path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={})
writer.stdout.readline()
print(attempt(fcntl.flock, file, fcntl.LOCK_SH | fcntl.LOCK_NB))
print(attempt(fcntl.lockf, file, fcntl.LOCK_SH | fcntl.LOCK_NB))
lock = struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0)
kind, whence, start, size, pid = struct.unpack('hhqqi4x', fcntl.fcntl(file, fcntl.F_GETLK, lock))
print(kind == fcntl.F_WRLCK, whence, start, size, pid == writer.pid)
os.lseek(file, 3, os.SEEK_SET)
print(attempt(os.lockf, file, os.F_TEST, 1))
writer.communicate()
print(attempt(fcntl.flock, file, fcntl.LOCK_SH | fcntl.LOCK_NB))""",
    "lease": """
import signal
signal.signal(signal.SIGIO, signal.SIG_IGN)
print(attempt(fcntl.fcntl, file, fcntl.F_SETLEASE, fcntl.F_RDLCK))
print(fcntl.fcntl(file, fcntl.F_GETLEASE) == fcntl.F_RDLCK)
print(other(ATTEMPT + 'attempt(os.open, path, os.O_WRONLY | os.O_NONBLOCK)'))""",
    "stream": """
stream = open(path, 'rb')
stream.read(1000)
fcntl.flock(stream, fcntl.LOCK_SH)
print(write_lock(), stream.tell(), stream.read(4))""",
    "duplicate": """
second = os.dup(file)
fcntl.flock(second, fcntl.LOCK_SH)
print(write_lock())
os.close(second)
print(write_lock(), os.read(file, 3), os.lseek(file, 0, os.SEEK_CUR))
fcntl.flock(file, fcntl.LOCK_UN)
print(write_lock())""",
    "duplicate with the position": """
second = os.dup(file)
third = fcntl.fcntl(file, fcntl.F_DUPFD, 100)
os.set_inheritable(second, True)
os.read(second, 5)
fcntl.flock(file, fcntl.LOCK_SH)
print(os.read(file, 3), os.read(second, 3), os.read(third, 3), os.get_inheritable(second))
print(os.get_inheritable(file), os.get_inheritable(third))""",
    "second descriptor": """
second = os.open(path, os.O_RDONLY)
fcntl.lockf(file, fcntl.LOCK_SH)
fcntl.flock(second, fcntl.LOCK_SH)
print(write_lock())
fcntl.flock(second, fcntl.LOCK_UN)
print(write_lock())
os.fsync(os.open(path, os.O_RDONLY))
print(write_lock())""",
    "then mapped": """
import mmap
fcntl.flock(file, fcntl.LOCK_SH)
print(bytes(mmap.mmap(file, 0, prot=mmap.PROT_READ)[7:9]), write_lock())""",
    "of a shell": """
shell = '(flock -s 9; head -c 3 <&9 | od -An -tx1; exec env -u LD_PRELOAD "$@") 9<$0'
code = 'import fcntl, os, sys\\nfile = os.open(sys.argv[1], os.O_RDWR)'
code += '\\ntry: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\\nexcept OSError: print("locked")'
for name in ('bash', 'sh'):
    words = [name, '-c', shell, path, sys.executable, '-S', '-c', code, path]
    print(subprocess.run(words, capture_output=True, text=True).stdout)""",
}


@pytest.mark.parametrize("code", LOCKS.values(), ids=LOCKS)
def test_locks_meet_those_of_programs_without_the_tier(daemon, code):
    printed, expected = both(daemon, code)
    assert printed == expected.replace("plain/file", "set/file")


CHANGES = {
    "utime": "os.utime(file, ns=(3 * 10**9, 5 * 10**9))",
    "futimes": "libc.futimes(file, (ctypes.c_long * 4)(3, 0, 5, 0))",
    "futimesat": "assert libc.futimesat(file, None, (ctypes.c_long * 4)(3, 0, 5, 0)) == 0",
    "utimensat of an empty path": """
times = (ctypes.c_long * 4)(3, 0, 5, 0)
assert libc.utimensat(file, b'', times, 0x1000) == 0""",
    "fchmod": "os.fchmod(file, 0o640)",
    "fchown": "print(attempt(os.fchown, file, -1, 12 if os.getuid() == 0 else -1))",
    "fchownat": "print(libc.fchownat(file, b'', 12 if os.getuid() == 0 else -1, -1, 0x1000))",
    "setxattr": """
os.setxattr(file, 'user.colour', b'red')
print(os.getxattr(file, 'user.colour'), os.listxattr(file))
os.setxattr(file, 'user.other', b'')
os.removexattr(file, 'user.other')""",
    "copystat": """
import shutil
other('os.setxattr(path, "user.colour", b"red")')
target = os.open(path + '.second', os.O_RDWR | os.O_CREAT)
shutil.copystat(file, target)
print(os.getxattr(target, 'user.colour'), os.listxattr(target), oct(os.stat(target).st_mode))
shutil.copystat(target, file)""",
    "flags of the file": """
print(attempt(fcntl.ioctl, file, 0x40086602, struct.pack('l', 0x80)))  # FS_IOC_SETFLAGS: noatime
print(struct.unpack('l', fcntl.ioctl(file, 0x80086601, bytes(8)))[0] & 0x80)
print(other('import struct; print(struct.unpack("l", fcntl.ioctl(os.open(path, os.O_RDONLY), '
            '0x80086601, bytes(8)))[0] & 0x80)'))""",
    "file system": "print(os.fstatvfs(file).f_bsize, os.readlink(f'/proc/self/fd/{file}') == path)",
    "fsync": "print(os.fsync(file), os.readlink(f'/proc/self/fd/{file}') == path)",
    "fdatasync": "print(os.fdatasync(file), os.readlink(f'/proc/self/fd/{file}') == path)",
    "blocking": """
print(os.get_blocking(file), fcntl.fcntl(file, fcntl.F_GETFL) & ~os.O_CLOEXEC)
os.set_blocking(file, False)
print(os.get_blocking(file), os.read(file, 3))""",
    "sent over a socket": """
import socket
one, two = socket.socketpair()
socket.send_fds(one, [b'x'], [file])
received = socket.recv_fds(two, 1, 1)[1][0]
os.fchmod(received, 0o604)""",
    "inherited": """
os.set_inheritable(file, True)
done = subprocess.run([sys.executable, '-S', '-c', f'import os; os.fchmod({file}, 0o604)'],
                      close_fds=False)
print(done.returncode)
while os.read(file, 50_000):
    pass
os.lseek(file, 0, os.SEEK_SET)""",
}
AFTER = """
about = os.stat(file)
print(about.st_mtime, oct(about.st_mode), about.st_uid, about.st_gid, about.st_nlink)
print(other('''
about = os.stat(path)
print(about.st_mtime, oct(about.st_mode), about.st_uid, about.st_gid, os.listxattr(path))
'''))
print(os.read(file, 3), os.pread(file, 3, 100))
"""


@pytest.mark.parametrize("code", CHANGES.values(), ids=CHANGES)
def test_changes_by_a_descriptor_are_changes_of_the_source(daemon, code):
    printed, expected = both(daemon, code + AFTER)
    assert printed == expected


GROWTH = {
    "read": """
while os.read(file, 50_000):
    pass
other("open(path, 'ab').write(b'more')")
print(os.read(file, 100), os.read(file, 100))""",
    "pread": """
size = os.fstat(file).st_size
print(os.pread(file, 10, size))
other("open(path, 'ab').write(b'more')")
print(os.pread(file, 10, size), os.preadv(file, [bytearray(10)], size))""",
    "lines": """
stream = open(path, errors='replace')
print(len(stream.read()), stream.readline())
other("open(path, 'ab').write(b'one\\\\ntwo')")
print(stream.readline(), stream.readline(), stream.readline())""",
    "status": """
while os.read(file, 50_000):
    pass
other("open(path, 'ab').write(b'more')")
print(os.fstat(file).st_size, os.lseek(file, 0, os.SEEK_END))""",
    "only status": """
sizes = set()
for turn in range(30):
    sizes.add(os.fstat(file).st_size)
    if turn == 20:
        other("open(path, 'ab').write(b'more')")
print(sorted(sizes))""",
    "only seeks": """
os.lseek(file, 0, os.SEEK_END)
print(os.read(file, 1))
other("open(path, 'ab').write(b'more')")
print(os.lseek(file, 0, os.SEEK_END))""",
    "stdio": """
libc.fopen.restype = ctypes.c_void_p
stream = ctypes.c_void_p(libc.fopen(os.fsencode(path), b're'))
data = ctypes.create_string_buffer(200_000)
print(libc.fread(data, 1, 200_000, stream))
other("open(path, 'ab').write(b'more')")
libc.clearerr(stream)
print(libc.fread(data, 1, 200_000, stream), data.raw[:4])""",
    "truncated": """
while os.read(file, 50_000):
    pass
other("os.truncate(path, 9)")
print(os.fstat(file).st_size, os.read(file, 3))
print(os.lseek(file, 0, os.SEEK_SET), os.read(file, 20))""",
    "replaced": """
while os.read(file, 50_000):
    pass
other("open(path + '.new', 'wb').write(bytes(9)); os.rename(path + '.new', path)")
print(os.fstat(file).st_size, os.read(file, 3), os.pread(file, 3, 7))
print(attempt(fcntl.flock, file, fcntl.LOCK_SH), write_lock())""",
    "mapped": """
import mmap
mapped = mmap.mmap(file, 0, prot=mmap.PROT_READ)
while os.read(file, 50_000):
    pass
other("open(path, 'ab').write(b'more')")
print(os.read(file, 9), mapped[-2:])""",
}


@pytest.mark.parametrize("code", GROWTH.values(), ids=GROWTH)
def test_who_looks_again_at_the_end_sees_what_was_appended(daemon, code):
    printed, expected = both(daemon, code)
    assert printed == expected


def test_tail_follows_a_file_with_a_copy(daemon):
    path = copied(daemon, data=b"one\n")
    with subprocess.Popen(
        ["tail", "-f", "-n", "+1", str(path)],
        env=daemon.environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as tail:
        assert tail.stdout is not None
        last = threading.Timer(DEADLINE, tail.kill)
        last.start()
        try:
            assert tail.stdout.readline() == "one\n"
            with path.open("a") as file:
                file.write("two\n")
            assert tail.stdout.readline() == "two\n"
        finally:
            last.cancel()
            tail.kill()


def test_a_changed_file_that_was_replaced_is_stale_as_on_nfs(daemon):
    path = copied(daemon)
    code = """
other("open(path + '.new', 'wb').write(bytes(9)); os.rename(path + '.new', path)")
print(attempt(os.fchmod, file, 0o600), attempt(os.utime, file))
print(attempt(os.setxattr, file, 'user.x', b''))
print(os.listxattr(file), attempt(os.getxattr, file, 'user.x'), os.read(file, 3))
"""
    before = daemon.copy_of(path).stat()
    printed = daemon.python(BEGIN + code, path)
    assert printed == "ESTALE ESTALE\nESTALE\n[] ENODATA b'\\x00\\x01\\x02'\n"
    after = daemon.copy_of(path).stat()
    assert (after.st_mode, after.st_mtime) == (before.st_mode, before.st_mtime)
    assert path.stat().st_mode & 0o777 == 0o644


def test_what_was_locked_is_still_read_from_the_copy(daemon):
    path = daemon.make("set/file", DATA)
    daemon.place(path, b"XYZ" + DATA[3:])
    code = """
fcntl.flock(file, fcntl.LOCK_SH)
data = b''
while piece := os.read(file, 10_000):
    data += piece
print(len(data), data[:4])
other("open(path, 'r+b').write(b'new')")
print(os.pread(file, 4, 0))
"""
    printed = daemon.python(BEGIN + code, path)
    assert printed == "{} {}\n{}\n".format(SMALL, *(each + DATA[3:4] for each in (b"XYZ", b"new")))
    assert daemon.said[-1].counts.source_bytes == 4


def test_a_lock_of_a_file_that_is_being_copied_outlives_its_copy(daemon):
    path = daemon.make("set/file", DATA)
    code = """
import mmap
fcntl.flock(file, fcntl.LOCK_SH)
second = os.open(path, os.O_RDONLY)
fcntl.lockf(second, fcntl.LOCK_SH)
third = os.open(path, os.O_RDONLY)
reader = os.open(path, os.O_RDONLY)
while os.read(reader, 10_000):
    pass
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
# A mapping of Python's has a descriptor of its own, with which the record lock would end.
mapped = [mmap.mmap(each, 0, prot=mmap.PROT_READ) for each in (file, second, third)]
print(write_lock())
"""
    expected = "['EAGAIN', 'EAGAIN']\n"
    assert daemon.python(BEGIN + code, path, daemon.copy_of(path)) == expected


def test_a_renamed_root_leads_to_the_programs_path(daemon, tmp_path):
    path = copied(daemon)
    mounted = tmp_path / "mounted"
    mounted.symlink_to(daemon.source)
    kept = daemon.environment
    settings = f"\nsource={mounted}\nas={daemon.source}"

    def renamed() -> dict[str, str]:
        environment = kept()
        environment["TF_MALLEABLE_TIER"] += settings
        return environment

    daemon.environment = renamed  # type: ignore[method-assign]
    code = "os.fchmod(file, 0o604)\nprint(os.readlink(f'/proc/self/fd/{file}'))"
    assert daemon.python(BEGIN + code, mounted / "set/file") == f"{path}\n"
    assert daemon.said[-1].counts.copy_opens == 1
    assert path.stat().st_mode & 0o777 == 0o604


def test_a_copy_that_was_evicted_leads_to_its_source(daemon):
    path = copied(daemon)
    copy = daemon.copy_of(path)
    code = "other('os.unlink(sys.argv[1])')\nos.fchmod(file, 0o604)"
    code = code.replace("sys.argv[1]", repr(str(copy)).replace("'", '"'))
    daemon.python(BEGIN + code, path)
    assert not copy.exists()
    assert path.stat().st_mode & 0o777 == 0o604


def test_a_public_copy_leads_to_its_source(tmp_path):
    with StandIn(tmp_path, flags=StateFlag.FILLS | StateFlag.SHARED) as daemon:
        path = daemon.make("public/private/7/file", DATA)
        daemon.own = daemon.store / "public"
        daemon.place(path, DATA)
        printed = daemon.python(BEGIN + "os.fchmod(file, 0o604)\nprint(os.read(file, 3))", path)
        assert printed == f"{DATA[:3]!r}\n"
        assert daemon.said[-1].counts.copy_opens == 1
        assert path.stat().st_mode & 0o777 == 0o604


def test_threads_that_lock_one_descriptor_share_the_lock(daemon):
    path = copied(daemon)
    code = """
import threading
for turn in range(50):
    file = os.open(path, os.O_RDONLY)
    calls = [lambda: fcntl.flock(file, fcntl.LOCK_SH), lambda: os.fsync(file),
             lambda: os.listxattr(file), lambda: [os.pread(file, 1, 1 << 30) for _ in range(3)]]
    threads = [threading.Thread(target=call) for call in calls * 2]
    [each.start() for each in threads]
    [each.join() for each in threads]
    writer = libc.open(os.fsencode(path), os.O_RDONLY)
    fcntl.flock(writer, fcntl.LOCK_SH)
    print(attempt(fcntl.flock, writer, fcntl.LOCK_EX | fcntl.LOCK_NB))
    os.close(writer)
    os.close(file)
"""
    assert set(daemon.python(BEGIN + code, path).split()) == {"EAGAIN"}


def test_a_writer_cannot_open_an_hdf5_file_that_is_read(daemon):
    make = "import h5py, sys\nwith h5py.File(sys.argv[1], 'w') as file: file['x'] = range(50_000)"
    reader = """
import os
os.environ['HDF5_USE_FILE_LOCKING'] = 'TRUE'
import h5py, subprocess, sys
with h5py.File(sys.argv[1]) as file:
    kept = {k: v for k, v in os.environ.items() if k not in ('LD_PRELOAD', 'TF_MALLEABLE_TIER')}
    done = subprocess.run([sys.executable, '-c', '''
import h5py, sys
try:
    h5py.File(sys.argv[1], 'r+')
    print('opened')
except OSError as error:
    print(str(error).split('(')[0])
''', sys.argv[1]], env=kept, capture_output=True, text=True)
    print(done.stdout, done.stderr, file['x'][:].sum())
"""
    path = daemon.make("set/file.h5", b"")
    plain(make, path)
    os.utime(path, (OLD, OLD))
    expected = plain(reader, path)
    assert "opened" not in expected
    daemon.python("import sys\nopen(sys.argv[1], 'rb').read()", path)
    daemon.wait_for_copy(path)
    assert daemon.run(sys.executable, "-c", reader, path) == expected
    assert daemon.said[-1].counts.copy_opens == 1
    assert daemon.said[-1].counts.source_bytes == 0


def test_sqlite_reads_while_another_writes(daemon):
    make = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as base:
    base.execute('create table t (n)')
    base.executemany('insert into t values (?)', [(n,) for n in range(1000)])
"""
    reader = """
import os, sqlite3, subprocess, sys
base = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True, isolation_level=None)
base.execute('begin')
print(base.execute('select sum(n) from t').fetchall())
kept = {k: v for k, v in os.environ.items() if k not in ('LD_PRELOAD', 'TF_MALLEABLE_TIER')}
def write():
    return subprocess.run([sys.executable, '-S', '-c', '''
import sqlite3, sys
base = sqlite3.connect(sys.argv[1], timeout=0)
try:
    base.execute('insert into t values (5)')
    base.commit()
    print('written')
except sqlite3.OperationalError as error:
    print(error)
''', sys.argv[1]], env=kept, capture_output=True, text=True).stdout
print(write())
base.execute('rollback')
print(write(), base.execute('select sum(n) from t').fetchall())
"""
    paths = [daemon.make(f"set/{name}", b"") for name in ("one", "two")]
    for path in paths:
        plain(make, path)
        os.utime(path, (OLD, OLD))
    daemon.python("import sys\nopen(sys.argv[1], 'rb').read()", paths[1])
    daemon.wait_for_copy(paths[1])
    assert daemon.python(reader, paths[1]) == plain(reader, paths[0])
