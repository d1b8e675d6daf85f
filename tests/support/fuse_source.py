# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A file system for tests, by the kernel's FUSE protocol: reads fail, or root may not read.

Needs root and /dev/fuse. One folder of files, served by a thread of the test.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

LOOKUP, FORGET, GETATTR, UNLINK, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 10, 14, 15, 17, 18
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, DESTROY, BATCH_FORGET = (
    *(25, 26, 27, 28, 29, 36, 38, 42),
)
_IN = struct.Struct("<IIQQIIII")
_OUT = struct.Struct("<IiQ")
_ATTRIBUTES = struct.Struct("<6Q10I")
_INIT = struct.Struct("<4I2H2I2H8I")
_LARGEST = 1 << 18
_OLD = 1_000_000_000
_DETACH = 2


class FuseSource:
    """What is served, and how.

    Attributes:
        files: Their contents, by name.
        fails_from: Reads beyond this offset end with EIO; None if none do.
        only: The only user who may look up and open files, not even root; None for all.
        modified_s: Time of the last modification and change, in seconds since 1970.
        may_close: While it is not set, whoever closes a file waits.
        is_closing: Set once somebody closes a file.
        remembered_s: Time for which the kernel need not ask again for a name or a status, in
            seconds.
        asked: Number of requests of each kind, such as LOOKUP, so far.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)
        self.fails_from: int | None = None
        self.only: int | None = None
        self.modified_s, self.remembered_s = _OLD, 1
        self.asked: Counter[int] = Counter()
        self.may_close, self.is_closing = threading.Event(), threading.Event()
        self.may_close.set()
        self._names = list(files)
        self._removed: set[str] = set()

    def serve(self, device: int) -> None:
        """Answer until it is unmounted."""
        while True:
            try:
                data = os.read(device, _LARGEST)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                    continue
                return
            _, code, unique, node, uid, *_ = _IN.unpack_from(data)
            self.asked[code] += 1
            if code in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            try:
                answer, failure = self._answer(code, node, uid, data[_IN.size :]), 0
            except OSError as error:
                answer, failure = b"", error.errno or errno.EIO
            try:
                os.write(device, _OUT.pack(_OUT.size + len(answer), -failure, unique) + answer)
            except OSError:  # Whoever asked was interrupted.
                continue
            if code == DESTROY:
                return

    def _answer(self, code: int, node: int, uid: int, body: bytes) -> bytes:
        if code in (LOOKUP, OPEN) and self.only not in (None, uid):
            raise OSError(errno.EACCES, "")
        if code == INIT:
            return _INIT.pack(7, 31, 1 << 17, 0, 12, 9, 1 << 17, 1, 0, 0, *[0] * 8)
        if code == LOOKUP:
            name = os.fsdecode(body.rstrip(b"\0"))
            if name not in self.files or name in self._removed:
                raise OSError(errno.ENOENT, "")
            number = self._names.index(name) + 2
            valid_s = self.remembered_s
            entry = struct.pack("<4Q2I", number, 0, valid_s, valid_s, 0, 0)
            return entry + self._attributes(number)
        if code == GETATTR:
            return struct.pack("<Q2I", self.remembered_s, 0, 0) + self._attributes(node)
        if code in (OPEN, OPENDIR):
            return struct.pack("<Q2I", 0, 0, 0)
        if code == READ:
            _, begin, size = struct.unpack_from("<2QI", body)
            if self.fails_from is not None and begin + size > self.fails_from:
                raise OSError(errno.EIO, "")
            return self.files[self._names[node - 2]][begin : begin + size]
        if code == UNLINK:
            self._removed.add(os.fsdecode(body.rstrip(b"\0")))
            return b""
        if code == STATFS:
            return bytes(80)
        if code == FLUSH:
            self.is_closing.set()
            self.may_close.wait()
        if code in (FLUSH, RELEASE, RELEASEDIR, READDIR, DESTROY):
            return b""
        raise OSError(errno.ENOSYS, "")

    def _attributes(self, node: int) -> bytes:
        size = len(self.files[self._names[node - 2]]) if node > 1 else 0
        mode, owner = (0o100600 if node > 1 else 0o40755), self.only or 0
        if self.only is None and node > 1:
            mode = 0o100644
        times = (_OLD, self.modified_s, self.modified_s)
        return _ATTRIBUTES.pack(
            node, size, -(-size // 512), *times, 0, 0, 0, mode, 1, owner, owner, 0, 4096, 0
        )


@contextmanager
def mounted(source: FuseSource, folder: Path) -> Iterator[FuseSource]:
    """Have it mounted over a folder for the length of a with statement; skips without FUSE."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        pytest.skip("needs root and /dev/fuse")
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"tests", os.fsencode(folder), b"fuse", 0, options):
        os.close(device)
        pytest.skip("file systems cannot be mounted here")
    thread = threading.Thread(target=source.serve, args=[device], daemon=True)
    thread.start()
    try:
        yield source
    finally:
        libc.umount2(os.fsencode(folder), _DETACH)
        thread.join(10)
        os.close(device)
