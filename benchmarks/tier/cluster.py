# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Nodes on one machine: each in a mount namespace of its own, where the source is mounted.

So each has a cache of its own of the source, and all share its bandwidth.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.command_line import BenchmarkError

HERE = Path(__file__).parent
_NUMBERS = struct.Struct("<7Q")
_SECRET = "the secret of the nodes of a benchmark"


@dataclass(frozen=True)
class Asked:
    """What the source was asked: bytes, reads, opens and other requests."""

    bytes: int
    reads: int
    opens: int
    metadata: int

    def since(self, before: Asked) -> Asked:
        """Return what was asked since then."""
        return Asked(
            self.bytes - before.bytes,
            self.reads - before.reads,
            self.opens - before.opens,
            self.metadata - before.metadata,
        )


class SlowSource:
    """The source: a folder behind FUSE, with a limit."""

    def __init__(self, folder: Path) -> None:
        """Build the file system, and make its folders below this one.

        Raises:
            BenchmarkError: This machine lacks what mounts or builds it.
        """
        flags = _fuse_flags()
        self.folder = folder
        self.files, self.mount = folder / "files", folder / "data"
        self.counters, self.codes = folder / "counters", folder / "codes.json"
        for each in (self.files, self.mount):
            each.mkdir(parents=True, exist_ok=True)
        self.program = folder / "slow_source"
        subprocess.run(
            ["cc", "-O2", "-o", self.program, HERE / "slow_source.c", *flags], check=True
        )
        self.counters.write_bytes(bytes(_NUMBERS.size))
        self.limit(0.0, 0.0)

    def fill(self, count: int, size: int) -> None:
        """Make so many files of so many bytes, modified long ago."""
        shutil.rmtree(self.files)
        self.files.mkdir()
        codes = {}
        then = time.time() - 1000
        for number in range(count):
            name = f"part-{number // 1000:03}/{number:06}"
            path = self.files / name
            path.parent.mkdir(exist_ok=True)
            data = os.urandom(size)
            path.write_bytes(data)
            os.utime(path, (then, then))
            codes[name] = zlib.crc32(data)
        self.codes.write_text(json.dumps(codes))

    def limit(self, rate: float, latency: float) -> None:
        """Set the bandwidth in bytes a second, 0 for none, and the latency in seconds."""
        with self.counters.open("r+b") as file:
            file.seek(32)
            file.write(struct.pack("<3Q", int(rate), int(latency * 1e9), 0))

    def asked(self) -> Asked:
        """Return what the source was asked so far."""
        return Asked(*_NUMBERS.unpack(self.counters.read_bytes())[:4])


def _fuse_flags() -> list[str]:
    """Return the compiler's flags for libfuse, if all else is there, too.

    Raises:
        BenchmarkError: Something is missing.
    """
    if os.geteuid() != 0:
        raise BenchmarkError("it mounts a file system for each node: run it as root")
    if not os.access("/dev/fuse", os.W_OK):
        raise BenchmarkError("there is no /dev/fuse")
    install = "apt-get install libfuse3-dev fuse3 pkg-config gcc"
    for program in ("pkg-config", "cc", "unshare", "nsenter", "fusermount3"):
        if shutil.which(program) is None:
            raise BenchmarkError(f"it needs {program}: {install}")
    asked = ["pkg-config", "--cflags", "--libs", "fuse3"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise BenchmarkError(f"it needs libfuse3-dev: {install}")
    return found.stdout.split()


@dataclass
class Node:
    """One node: a shell in a mount namespace, the source's mount, a daemon, a reader."""

    number: int
    folder: Path
    keeper: subprocess.Popen[bytes]
    daemon: subprocess.Popen[bytes] | None = None
    has_shim: bool = False

    def enter(self, words: Sequence[str | Path], **options: object) -> subprocess.Popen[Any]:
        """Start a program on this node."""
        prefix = ["nsenter", "-t", str(self.keeper.pid), "-m", "--"]
        return subprocess.Popen([*prefix, *map(str, words)], **options)  # type: ignore[call-overload]

    def end_tier(self) -> None:
        """End the daemon, if there is one."""
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait(30)
            self.daemon = None

    @property
    def socket(self) -> Path:
        """Where its readers ask the tier."""
        return self.folder / "s"


@contextmanager
def cluster(
    source: SlowSource, folder: Path, count: int, options: Sequence[str] | None
) -> Iterator[list[Node]]:
    """Have nodes for the length of a with statement, with empty stores.

    Args:
        source: What they read.
        folder: Folder of the nodes; a new one, whose files stay. Without a journal, ext4 looks at
            each file that was removed within minutes before it makes another one.
        count: How many nodes there are.
        options: Options of the tier of each; None for no tiers.
    """
    nodes: list[Node] = []
    try:
        for number in range(count):
            nodes.append(_node(source, folder / f"n{number}", number))
        if options is not None:
            for node in nodes:
                _start_tier(source, node, count, options)
            for node in nodes:
                _wait_for(node.folder / "s.control")
            time.sleep(1.5)  # They have heard of each other.
        yield nodes
    finally:
        for node in nodes:
            node.end_tier()
            # With its last process the namespace goes, and the mount with it.
            with suppress(ProcessLookupError):
                os.killpg(node.keeper.pid, signal.SIGKILL)
            node.keeper.wait()


def read(
    source: SlowSource,
    nodes: Sequence[Node],
    epochs: int,
    *words: str,
    whole: bool = False,
) -> list[list[dict[str, Any]]]:
    """Have all nodes read; returns what each said, by epoch.

    Args:
        source: What they read.
        nodes: Who reads.
        epochs: How often.
        words: More arguments of each reader.
        whole: Files are copied whole before they are read.
    """
    readers = []
    for node in nodes:
        environment = {**os.environ, "TF_MALLEABLE_TIER_SOCKET": str(node.socket)}
        environment["TF_MALLEABLE_SOCKET"] = str(node.folder / "no-controller")
        program = [sys.executable, HERE / "reader.py", source.mount, "--codes", source.codes]
        program += ["--node", str(node.number), "--nodes", str(len(nodes))]
        program += ["--epochs", str(epochs), *words]
        if whole:
            program += ["--whole", node.folder / "whole"]
        if node.has_shim:
            program = [sys.executable, "-m", "tf_malleable_cli", "run", "--tier", "--", *program]
        readers.append(
            node.enter(
                program,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                text=True,
            )
        )
    found = []
    for _ in range(epochs):
        for reader in readers:
            reader.stdin.write("\n")
            reader.stdin.flush()
        found.append([json.loads(reader.stdout.readline()) for reader in readers])
    for reader in readers:
        reader.communicate(timeout=30)
    assert all(each["right"] for epoch in found for each in epoch), "other bytes than the source's"
    return found


def busy_seconds() -> float:
    """Return for how long the machine's CPUs were busy, in CPU seconds."""
    user, nice, system, _, _, *irqs = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + sum(irqs)) / os.sysconf("SC_CLK_TCK")


def daemon_seconds(node: Node) -> float:
    """Return the CPU time of a node's daemon."""
    if node.daemon is None:
        return 0.0
    fields = Path(f"/proc/{node.daemon.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _node(source: SlowSource, folder: Path, number: int) -> Node:
    folder.mkdir(parents=True)
    ready = folder / "ready"
    script = (
        f"'{source.program}' '{source.files}' '{source.counters}' '{source.mount}' & "
        f"until mountpoint -q '{source.mount}'; do sleep 0.02; done; touch '{ready}'; wait"
    )
    keeper = subprocess.Popen(
        ["unshare", "-m", "--propagation", "private", "sh", "-c", script],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    _wait_for(ready)
    return Node(number, folder, keeper)


def _start_tier(source: SlowSource, node: Node, count: int, options: Sequence[str]) -> None:
    addresses = [f"127.0.1.{number + 1}:7701" for number in range(count)]
    words = ["--source", source.mount, "--store", node.folder / "store", "--socket", node.socket]
    words += ["--listen", addresses[node.number], "--peers", ",".join(addresses)]
    words += options
    node.has_shim = True
    with (node.folder / "log").open("wb") as log:
        node.daemon = node.enter(
            [sys.executable, "-m", "tf_malleable_cli", "tier", "serve", *words],
            env={**os.environ, "TF_MALLEABLE_TIER_SECRET": _SECRET},
            stderr=log,
        )


def _wait_for(path: Path) -> None:
    end = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < end, f"{path} does not come"
        time.sleep(0.02)
