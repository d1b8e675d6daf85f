# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A stand-in for a tier's daemon: publishes what readers fill, and does what a test says."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import tf_malleable.runtime
from tf_malleable.linux.processes.peer_credentials import peer_of
from tf_malleable.tier.readers.reader_queue import ReaderQueue

SHIM = Path(tf_malleable.runtime.__file__).with_name("libtf_malleable_tier.so")
GROWING, FULL, CLOSED, UNSEEN, CHANGED, COUNTS, WHOLE, ASK = range(1, 9)
QUEUE, HANDED = 10, 11
FILLS, ASKS, SHARED, TAKES = 1, 2, 4, 16
DEADLINE = 30.0
_ATTRIBUTE = "user.tfm.source"
_IDENTITY = struct.Struct("<II QQq qqqq IIII IIII qq QQ")
_MESSAGE = struct.Struct(f"<II {_IDENTITY.size}s 8Q")
_STATE = struct.Struct("<II QQQQ QQ")
_STATE_BYTES = 4096
_MAP_BYTES = 256
_OLD = 1_000_000_000


class Sums(NamedTuple):
    """What a reader has done so far."""

    copy_opens: int
    copy_bytes: int
    copy_stats: int
    source_opens: int
    source_bytes: int
    growing_bytes: int
    waits: int
    wait_ns: int


@dataclass
class Said:
    """A message of a reader's."""

    kind: int
    path: str
    sums: Sums
    identity: bytes
    files: list[int]


@dataclass
class StandIn:
    """Listens in a thread. Use it in a `with` statement.

    Attributes:
        folder: Where everything is.
        flags: What the page says: FILLS, ASKS, SHARED.
        publishes: Copies that are complete are put in their place.
        answer: Called for each question; returns what is written.
        taken: The paths of what was handed over, with what became of it.
    """

    folder: Path
    flags: int = FILLS
    publishes: bool = True
    answer: Callable[[StandIn, str], bytes] = lambda _daemon, _path: b"S"
    said: list[Said] = field(default_factory=list)
    taken: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.uid = os.geteuid()
        self.store, self.source = self.folder / "store", self.folder / "source"
        self.own = self.store / "private" / str(self.uid)
        self.growing = self.store / "growing" / "private" / str(self.uid)
        for folder in (self.source, self.own, self.growing, self.store / "growing" / "public"):
            folder.mkdir(parents=True, exist_ok=True)
        self.socket = self.folder / "socket"
        self._growing: dict[str, Said] = {}
        self._lives, self._frozen = False, threading.Event()
        self._readers: list[tuple[int, threading.Thread]] = []

    def __enter__(self) -> StandIn:
        self._page = os.open(f"{self.socket}.state", os.O_RDWR | os.O_CREAT, 0o644)
        text = f"store={self.store}\nsource={self.source}\n"
        os.pwrite(self._page, bytes(_STATE_BYTES) + text.encode(), 0)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(self.socket))
        self._listener.listen(64)
        self._listener.settimeout(0.05)
        self._threads = [threading.Thread(target=self._listen)]
        self._lives = True
        self.live()
        self._threads[0].start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._lives = False
        for thread in (*self._threads, *(thread for _, thread in self._readers)):
            thread.join()
        self._listener.close()
        os.close(self._page)
        self.forget()

    def forget(self) -> None:
        """Close what readers sent."""
        for each in self.said:
            for descriptor in each.files:
                os.close(descriptor)
            each.files = []

    def live(self, seconds: float = 3600, largest: int = 1 << 40) -> None:
        """Say for how long this lives; 0 for not at all."""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().replace("-", "")[:16]
        until = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + int(seconds * 1e9) if seconds else 0
        store = os.stat(self.store)
        state = (0x734D4654, 1, int(boot, 16), until, self.flags, largest)
        state += (store.st_dev, store.st_ino)
        os.pwrite(self._page, _STATE.pack(*state), 0)

    def leave_unasked(self, folder: Path) -> None:
        """Say that nobody asks of the files in a folder."""
        code = 0xCBF29CE484222325
        for byte in os.fsencode(folder):
            code = (code ^ byte) * 0x100000001B3 % (1 << 64)
        os.pwrite(self._page, code.to_bytes(8, "little"), 64 + code % 500 * 8)

    def freeze(self) -> None:
        """Receive nothing any more, as a daemon that was stopped."""
        self._frozen.set()

    def make(self, name: str, data: bytes) -> Path:
        """Make a file of the source that was modified long ago."""
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (_OLD, _OLD))
        return path

    def copy_of(self, path: Path | str) -> Path:
        """Return where the complete copy of a file is."""
        return Path(f"{self.own}{path}")

    def kinds(self, path: Path | str) -> list[int]:
        """Return the kinds of the messages about a file, so far."""
        return [each.kind for each in tuple(self.said) if each.path == str(path)]

    def wait_for(self, path: Path | str, kind: int) -> Said:
        """Wait for a message about a file."""
        until = time.monotonic() + DEADLINE
        while time.monotonic() < until:
            for each in tuple(self.said):
                if each.path == str(path) and each.kind == kind:
                    return each
            time.sleep(0.01)
        raise AssertionError(f"no message {kind} about {path}, only {self.kinds(path)}")

    def wait_for_copy(self, path: Path | str) -> Path:
        """Wait for the complete copy of a file."""
        copy, until = self.copy_of(path), time.monotonic() + DEADLINE
        while not os.path.exists(copy):
            assert time.monotonic() < until, f"no copy of {path}: {self.kinds(path)}"
            time.sleep(0.01)
        return copy

    def publish(self, path: str, identity: bytes, part: int) -> None:
        """Put a complete copy in its place."""
        copy = self.copy_of(path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        values = list(_IDENTITY.unpack(identity))
        values[-1] = os.fstat(part).st_ino
        os.setxattr(part, _ATTRIBUTE, _IDENTITY.pack(*values))
        copy.unlink(missing_ok=True)
        # With a folder, os.link() follows links.
        folder = os.open("/proc/self/fd", os.O_PATH)
        os.link(str(part), copy, src_dir_fd=folder, follow_symlinks=True)
        os.close(folder)

    def identity_of(self, path: Path | str) -> bytes:
        """Return what tells a file of the source from others."""
        about = os.stat(path)
        times = (about.st_mtime_ns, about.st_ctime_ns, about.st_atime_ns, 0)
        return _IDENTITY.pack(
            *(0x694D4654, 1, about.st_dev, about.st_ino, about.st_size),
            *(each // 10**9 for each in times),
            *(each % 10**9 for each in times),
            *(about.st_mode, about.st_uid, about.st_gid, about.st_nlink),
            *(about.st_blocks, about.st_blksize, about.st_rdev, 0),
        )

    def fetch(
        self, path: Path, data: bytes, pieces: int, seconds: float, most: int | None = None
    ) -> None:
        """Begin to write a copy as if it came from another node, piece by piece.

        Args:
            path: Of the source.
            data: The file's content.
            pieces: Into how many parts it is cut.
            seconds: How long it takes, from when the folder has a file "go".
            most: After so many bytes nothing more comes; None for all of them.
        """
        name = _name_of(path)
        part = os.open(self.growing / f"{name}.part", os.O_RDWR | os.O_CREAT, 0o600)
        units, identity = -(-len(data) // 4096), self.identity_of(path)
        grown = os.open(self.growing / f"{name}.map", os.O_RDWR | os.O_CREAT, 0o600)
        header = struct.pack("<8I", 0x6D4D4654, 1, 4096, units, 0, 1, 1, 0) + identity
        os.pwrite(grown, header.ljust(_MAP_BYTES, b"\0"), 0)

        def write() -> None:
            step = -(-units // pieces)
            while self._lives and not (self.folder / "go").exists():
                time.sleep(0.005)
            for first in range(0, units, step):
                if most is not None and first * 4096 >= most:
                    break
                time.sleep(seconds / pieces)
                os.pwrite(part, data[first * 4096 : (first + step) * 4096], first * 4096)
                os.pwrite(grown, b"\1" * min(step, units - first), _MAP_BYTES + first)
            else:
                self.publish(str(path), identity, part)
            os.close(part)
            os.close(grown)

        self._threads.append(threading.Thread(target=write))
        self._threads[-1].start()

    def environment(self) -> dict[str, str]:
        """Return the environment of a reader."""
        preload = " ".join(filter(None, (str(SHIM), os.environ.get("LD_PRELOAD"))))
        variable = f"socket={self.socket}"
        return {**os.environ, "TF_MALLEABLE_TIER": variable, "LD_PRELOAD": preload}

    def run(self, *command: object, **options: object) -> str:
        """Run a program with the shim; returns what it printed."""
        result = subprocess.run(
            [str(part) for part in command],
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            **options,  # type: ignore[call-overload]
        )
        assert result.returncode == 0, result.stdout + result.stderr
        if self._lives:
            self._hear_out()
        return str(result.stdout)

    def python(self, code: str, *arguments: object, **options: object) -> str:
        """Run Python with the shim; returns what it printed."""
        return self.run(sys.executable, "-S", "-c", code, *arguments, **options)

    def _listen(self) -> None:
        while self._lives:
            try:
                reader, _ = self._listener.accept()
            except TimeoutError:
                continue
            if self._frozen.is_set():
                continue
            pid = peer_of(reader).pid
            thread = threading.Thread(target=self._serve, args=[reader])
            thread.start()
            self._readers.append((pid, thread))

    def _hear_out(self) -> None:
        """Wait until all is heard that was said by processes that have ended."""
        if self._frozen.is_set():
            return
        # Connections are accepted in their order, so with this one all before have been.
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as last:
            last.connect(str(self.socket))
        until = time.monotonic() + DEADLINE
        while os.getpid() not in (pid for pid, _ in self._readers):
            assert time.monotonic() < until, "the stand-in does not listen"
            time.sleep(0.001)
        for pid, thread in self._readers:
            if pid == os.getpid() or not Path(f"/proc/{pid}").exists():
                thread.join(DEADLINE)
        self._readers = [(pid, thread) for pid, thread in self._readers if thread.is_alive()]

    def _serve(self, reader: socket.socket) -> None:
        reader.settimeout(0.05)
        queue: ReaderQueue | None = None
        with reader:
            while self._lives:
                if self._frozen.is_set():
                    time.sleep(0.05)
                    continue
                data, files = b"-", []
                with suppress(TimeoutError):
                    data, files, _, _ = socket.recv_fds(reader, 8192, 3)
                if len(data) > 1 and self._take(data, files) == QUEUE:
                    queue = ReaderQueue(files[0], self.own, self.growing, [str(self.source)])
                while queue is not None and (taken := queue.take()):
                    self.taken += [(each.path, each.error) for each in taken]
                if not data:
                    return

    def _take(self, data: bytes, files: list[int]) -> int:
        """Do what follows from a message; returns its kind."""
        magic, kind, identity, *sums = _MESSAGE.unpack(data[: _MESSAGE.size])
        assert magic == 0x714D4654
        path = os.fsdecode(data[_MESSAGE.size :])
        said = Said(kind, path, Sums(*sums), identity, files)
        if kind == ASK:
            for each in self.answer(self, path):
                os.write(files[0], bytes([each]))
            os.close(files.pop())
        if kind == GROWING and len(files) == 3:
            self._growing[path] = said
        if self.publishes and kind == WHOLE and len(files) == 2:
            self.publish(path, identity, files[1])
        if self.publishes and kind == FULL and path in self._growing:
            self.publish(path, identity, self._growing.pop(path).files[2])
            for each in self.growing.glob(f"{_name_of(path)}.*"):
                each.unlink()
        self.said.append(said)
        return int(kind)


def _name_of(path: Path | str) -> str:
    """Return what a copy of a file is called while it grows: its path's FNV-1a hash."""
    value = 0x6C62272E07BB014262B821756295C58D
    for byte in os.fsencode(path):
        value = (value ^ byte) * ((1 << 88) + 0x13B) % (1 << 128)
    return f"{value:032x}"


def stop(process: subprocess.Popen[str]) -> None:
    """Kill a process that a test started."""
    process.send_signal(signal.SIGKILL)
    process.wait()
