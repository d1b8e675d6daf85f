# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A stand-in for a tier's daemon: copies what readers have read, and does what a test says."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import tf_malleable.runtime
from tests.support.deadline import DEADLINE
from tf_malleable.linux.file_status import cached_status
from tf_malleable.linux.processes.peer_credentials import peer_of
from tf_malleable.tier.protocol import (
    LARGEST_MESSAGE,
    MAP_BYTES,
    STATE,
    STATE_BYTES,
    STATE_MAGIC,
    STATE_OFFSET,
    UNASKED,
    UNASKED_OFFSET,
    VERSION,
    Identity,
    MapHead,
    MapState,
    MessageKind,
    ReaderCounts,
    ReaderMessage,
    StateFlag,
    folder_hash,
    name_of,
    unit_of,
)
from tf_malleable.tier.store import blocks, layout

SHIM: Final = Path(tf_malleable.runtime.__file__).with_name("libtf_malleable_tier.so")
_OLD: Final = 1_000_000_000
_DESCRIPTORS: Final = {
    MessageKind.READING: (2,),
    MessageKind.WHOLE: (1,),
    MessageKind.UNSEEN: (0, 1),
    MessageKind.ASK: (1,),
}


@dataclass(frozen=True)
class Said:
    """A message of a reader's.

    Attributes:
        kind: Kind of the message.
        path: Path of the file; empty for none.
        counts: Counters of the reader.
        identity: Identity of the file when it was opened; None for none.
        inodes: Inodes of the files whose descriptors came with the message.
        pid: Process id of the reader.
    """

    kind: MessageKind
    path: str
    counts: ReaderCounts
    identity: Identity | None
    inodes: tuple[int, ...]
    pid: int


@dataclass
class Reading:
    """A file that a reader reads: its descriptor, and the map in which the reader marks units.

    Attributes:
        path: Path of the file.
        identity: Identity of the file when it was opened.
        source: Descriptor of the file in the source.
        map: Descriptor of the map.
    """

    path: str
    identity: Identity
    source: int
    map: int

    def __post_init__(self) -> None:
        self.head = MapHead.decode(os.pread(self.map, MAP_BYTES, 0))
        assert self.head.identity == self.identity
        assert self.head.state == MapState.GROWING

    def units(self) -> bytes:
        """Return the units as the reader has marked them so far."""
        marked = os.pread(self.map, self.head.units + 1, MAP_BYTES)
        assert len(marked) <= self.head.units
        return marked.ljust(self.head.units, b"\0")

    def is_full(self) -> bool:
        """Return whether the reader has read the whole file."""
        return self.units() == b"\1" * self.head.units

    def close(self) -> None:
        """Close both descriptors."""
        os.close(self.source)
        os.close(self.map)


@dataclass
class StandIn:
    """Listens in a thread. Use it in a `with` statement.

    Attributes:
        folder: Where everything is.
        flags: Flags of the state.
        publishes: Files that were read are copied.
        answer: Called for each lookup; returns the replies.
        said: What the readers have said.
        units: The last map of each file that a reader has closed.
    """

    folder: Path
    flags: StateFlag = StateFlag.FILLS
    publishes: bool = True
    answer: Callable[[StandIn, str], bytes] = lambda _daemon, _path: b"S"
    said: list[Said] = field(default_factory=list)
    units: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.uid = os.geteuid()
        self.store, self.source = self.folder / "store", self.folder / "source"
        self.own = self.store / "private" / str(self.uid)
        self.growing = self.store / "growing" / "private" / str(self.uid)
        for folder in (self.source, self.own, self.growing, self.store / "growing" / "public"):
            folder.mkdir(parents=True, exist_ok=True)
        self.socket = self.folder / "socket"
        self._lives, self._frozen = False, threading.Event()
        self._placing = threading.Lock()
        self._readers: list[tuple[int, threading.Thread]] = []

    def __enter__(self) -> StandIn:
        self._page = os.open(f"{self.socket}.state", os.O_RDWR | os.O_CREAT, 0o644)
        text = f"store={self.store}\nsource={self.source}\n"
        os.pwrite(self._page, bytes(STATE_BYTES) + text.encode(), 0)
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

    def live(self, seconds: float = 3600, largest: int = 1 << 40) -> None:
        """Say for how long this lives; 0 for not at all."""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().replace("-", "")[:16]
        until = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + int(seconds * 1e9) if seconds else 0
        store = os.stat(self.store)
        state = (STATE_MAGIC, VERSION, int(boot, 16), until, self.flags, largest)
        os.pwrite(self._page, STATE.pack(*state, store.st_dev, store.st_ino), 0)

    def leave_unasked(self, folder: Path) -> None:
        """Say that nobody asks of the files in a folder."""
        code = folder_hash(str(folder))
        os.pwrite(self._page, code.to_bytes(8, "little"), UNASKED_OFFSET + code % UNASKED * 8)

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

    def kinds(self, path: Path | str) -> list[MessageKind]:
        """Return the kinds of the messages about a file, so far."""
        return [each.kind for each in tuple(self.said) if each.path == str(path)]

    def wait_for(self, path: Path | str, kind: MessageKind) -> Said:
        """Wait for a message about a file."""
        until = time.monotonic() + DEADLINE
        while time.monotonic() < until:
            for each in tuple(self.said):
                if each.path == str(path) and each.kind == kind:
                    return each
            time.sleep(0.01)
        raise AssertionError(f"no {kind!r} of {path}, only {self.kinds(path)}")

    def wait_for_copy(self, path: Path | str) -> Path:
        """Wait for the complete copy of a file."""
        copy, until = self.copy_of(path), time.monotonic() + DEADLINE
        while not os.path.exists(copy):
            assert time.monotonic() < until, f"no copy of {path}: {self.kinds(path)}"
            time.sleep(0.01)
        return copy

    def publish(self, path: str, identity: Identity, part: int) -> None:
        """Put a complete copy in its place, at once: of several readers each may have one."""
        copy, new = self.copy_of(path), self.growing / f"{name_of(path)}.new"
        copy.parent.mkdir(parents=True, exist_ok=True)
        layout.mark(part, identity, tuple(blocks.checksums_of(part, identity.size)))
        # With a folder, os.link() follows links.
        folder = os.open("/proc/self/fd", os.O_PATH)
        with self._placing:
            os.link(str(part), new, src_dir_fd=folder, follow_symlinks=True)
            new.replace(copy)
            new.unlink(missing_ok=True)  # If the copy was of this file before.
        os.close(folder)

    def place(self, path: Path | str, data: bytes) -> Path:
        """Make a complete copy of a file, as if its content was this; returns the copy."""
        part = os.open(self.growing, os.O_TMPFILE | os.O_RDWR, 0o600)
        os.write(part, data)
        self.publish(str(path), Identity.of(os.stat(path)), part)
        os.close(part)
        return self.copy_of(path)

    def fetch(
        self, path: Path, data: bytes, pieces: int, seconds: float, most: int | None = None
    ) -> None:
        """Begin to write a copy as if it came from another node, piece by piece.

        Args:
            path: Path of the source.
            data: The file's content.
            pieces: Into how many parts it is cut.
            seconds: How long it takes, from when the folder has a file "go".
            most: After so many bytes nothing more comes; None for all of them.
        """
        names = [self.growing / f"{name_of(str(path))}.{each}" for each in ("part", "map")]
        part, grown = (os.open(name, os.O_RDWR | os.O_CREAT, 0o600) for name in names)
        unit, identity = unit_of(len(data)), Identity.of(os.stat(path))
        units = -(-len(data) // unit)
        head = MapHead(unit, units, MapState.GROWING, identity)
        os.pwrite(grown, head.encode(is_fetching=True), 0)

        def write() -> None:
            step = -(-units // pieces)
            while self._lives and not (self.folder / "go").exists():
                time.sleep(0.005)
            for first in range(0, units, step):
                if most is not None and first * unit >= most:
                    break
                time.sleep(seconds / pieces)
                os.pwrite(part, data[first * unit : (first + step) * unit], first * unit)
                os.pwrite(grown, b"\1" * min(step, units - first), MAP_BYTES + first)
            else:
                self.publish(str(path), identity, part)
                os.pwrite(grown, MapState.FULL.to_bytes(4, "little"), STATE_OFFSET)
                for name in names:
                    name.unlink()
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
            self.hear_out()
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
            thread = threading.Thread(target=self._serve, args=[reader, pid])
            thread.start()
            self._readers.append((pid, thread))

    def hear_out(self) -> None:
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

    def _serve(self, reader: socket.socket, pid: int) -> None:
        reader.settimeout(0.05)
        readings: dict[str, list[Reading]] = {}
        data = b"-"
        with reader:
            while self._lives and data:
                if self._frozen.is_set():
                    time.sleep(0.05)
                    continue
                data, files = b"-", []
                with suppress(TimeoutError):
                    data, files, _, _ = socket.recv_fds(reader, LARGEST_MESSAGE, 3)
                if len(data) > 1:
                    self._take(ReaderMessage.decode(data), files, pid, readings)
                for reading in (each for some in readings.values() for each in some):
                    if reading.is_full():
                        self._copy(reading.path, reading.identity, reading.source)
            for reading in (each for some in readings.values() for each in some):
                self.units[reading.path] = reading.units()
                reading.close()

    def _take(
        self,
        message: ReaderMessage,
        files: list[int],
        pid: int,
        readings: dict[str, list[Reading]],
    ) -> None:
        """Do what follows from a message; takes over its descriptors."""
        kind, path, identity = message.kind, message.path, message.identity
        assert len(files) in _DESCRIPTORS.get(kind, (0,)), (kind, files)
        inodes = tuple(cached_status(each).st_ino for each in files)
        if kind == MessageKind.READING:
            assert identity is not None
            readings.setdefault(path, []).append(Reading(path, identity, *files))
            files = []
        elif kind == MessageKind.ASK:
            replies = self.answer(self, path)
            with suppress(BrokenPipeError):  # The reader waits no more.
                os.write(files[0], replies)
        elif kind in (MessageKind.WHOLE, MessageKind.UNSEEN):
            for source in files or [each.source for each in readings.get(path, [])]:
                assert identity is not None
                self._copy(path, identity, source)
        elif kind == MessageKind.CLOSED and path in readings:
            reading = readings[path].pop(0)
            self.units[path] = reading.units()
            if reading.is_full():
                self._copy(path, reading.identity, reading.source)
            reading.close()
        for each in files:
            os.close(each)
        # At last: who has seen it finds what follows from it.
        self.said.append(Said(kind, path, message.counts, identity, inodes, pid))

    def _copy(self, path: str, identity: Identity, source: int) -> None:
        """Copy a file by a descriptor of it, unless that has changed or has a copy."""
        if not self.publishes or self._is_copied(path, identity):
            return
        # As for the daemon: an error of the source, or a full disk, ends the copy.
        with suppress(OSError):
            part = os.open(self.growing, os.O_TMPFILE | os.O_RDWR, 0o600)
            try:
                while (done := os.fstat(part).st_size) < identity.size:
                    data = os.pread(source, 1 << 20, done)
                    if not data or os.pwrite(part, data, done) != len(data):
                        return
                about = os.fstat(source), os.stat(path)
                if all(identity.is_same(each) for each in about):
                    self.publish(path, identity, part)
            finally:
                os.close(part)

    def _is_copied(self, path: str, identity: Identity) -> bool:
        try:
            found = layout.identity_of(self.copy_of(path))
        except OSError:
            return False
        return found is not None and found._replace(copy_inode=0) == identity


def stop(process: subprocess.Popen[str]) -> None:
    """Kill a process that a test started."""
    process.send_signal(signal.SIGKILL)
    process.wait()
