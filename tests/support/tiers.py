# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tiers of several nodes on one machine: each with an address, a store and a socket of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import tfm
from tests.support.controllers import ask, start_tfm, wait_for
from tests.support.deadline import DEADLINE
from tf_malleable.api.schema.tier import STATUS

SECRET = "a secret of the nodes in a test"
# The scrub has the lowest priority: of a busy CPU it gets a hundredth.
SCRUB_SECONDS = 10 * DEADLINE
_FEWEST_READS = 4


def make_source(folder: Path, files: dict[str, bytes]) -> Path:
    """Fill a folder with files that were modified long enough ago."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        settle(path)
    return folder


def settle(path: Path, seconds: float = 100.0) -> None:
    """Have a file modified long ago."""
    then = time.time_ns() - int(seconds * 1e9)
    os.utime(path, ns=(then, then))


def read_until(
    condition: Callable[[], Any], read: Callable[[], object], again_seconds: float = 2.0
) -> int:
    """Have something read, and again while nothing comes of it, until a condition holds.

    A reader waits for no daemon: while that is late, as on a busy machine, the reader reads the
    source, and tells the daemon nothing. So of a single read there need not be a copy.

    Args:
        condition: Function that returns whether the read has had its effect.
        read: Function that reads.
        again_seconds: Time after which it is called again.

    Returns:
        The number of reads.
    """
    count, end = 0, time.monotonic() + 2 * DEADLINE
    while True:
        read()
        count += 1
        again = time.monotonic() + again_seconds
        while True:
            if condition():
                return count
            if time.monotonic() > again:
                break
            time.sleep(0.01)
        # A program may take a minute to start.
        assert count < _FEWEST_READS or time.monotonic() < end, f"read {count} times in vain"


@dataclass
class TierNode:
    """The tier of one node.

    Attributes:
        folder: Where its store and its socket are.
        source: What is copied.
        options: More options of tfm tier serve.
        secret: The nodes' secret; empty for none.
        environment: The environment of the daemon; None for this process's.
        process: The daemon, if it runs.
    """

    folder: Path
    source: Path | str
    options: tuple[str, ...] = ()
    address: str = ""
    secret: str = SECRET
    environment: dict[str, str] | None = None
    process: Any = None
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / "log"

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def socket(self) -> Path:
        return self.folder / "s"

    def start(self) -> TierNode:
        """Start the daemon, and wait until it is ready."""
        words = ["--source", str(self.source), "--store", str(self.store), "--socket"]
        environment = {**(self.environment or os.environ), "TF_MALLEABLE_TIER_SECRET": self.secret}
        begin = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = start_tfm(
                "tier",
                "serve",
                *words,
                str(self.socket),
                "-v",
                *self.options,
                env=environment,
                stderr=log,
                stdout=log,
            )
        wait_for(lambda: "copies of" in self.log.read_bytes()[begin:].decode() or self.ended())
        return self

    def ended(self) -> bool:
        """Fail if it has ended, with what it said."""
        assert self.process.poll() is None, self.log.read_text()
        return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE)

    def stop(self) -> None:
        """Hang it, as SIGSTOP does."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def tfm(self, *words: str | Path) -> Any:
        """Run a command of tfm tier against it."""
        return tfm("tier", str(words[0]), "--socket", str(self.socket), *map(str, words[1:]))

    def warm(self, *paths: Path) -> None:
        done = self.tfm("warm", *paths)
        assert done.returncode == 0, done.stderr

    def status(self) -> dict[str, Any]:
        # Not by a command: tests look until something is so.
        code, found = ask(f"{self.socket}.control", "GET", STATUS)
        assert code == 200, found
        return dict(found)

    def counted(self, name: str) -> float:
        return float(self.status()["counters"][name])

    def copy(self, path: Path, area: str = "") -> Path:
        """Return where the copy of a file is; by default that of this test's user."""
        area = area or f"private/{os.geteuid()}"
        return Path(f"{self.store}/{area}{os.path.realpath(path)}")

    def has(self, path: Path) -> bool:
        return self.copy(path).exists() or self.copy(path, "public").exists()


@contextmanager
def nodes(
    folder: Path, source: Path, count: int, *options: str, secret: str = SECRET
) -> Iterator[list[TierNode]]:
    """Have tiers that share copies, for the length of a with statement."""
    addresses = [f"127.0.0.{number}:{_free_port(number)}" for number in range(2, 2 + count)]
    peers = ",".join(addresses)
    found = [
        TierNode(
            folder / f"n{number}",
            source,
            ("--listen", address, "--peers", peers, *options),
            address,
            secret,
        )
        for number, address in enumerate(addresses)
    ]
    with ExitStack() as stack:
        for each in found:
            stack.callback(end, each)
            each.start()
        yield found


@contextmanager
def one_node(folder: Path, source: Path, *options: str) -> Iterator[TierNode]:
    """Have a tier without other nodes, for the length of a with statement."""
    node = TierNode(folder / "node", source, options)
    try:
        yield node.start()
    finally:
        end(node)


def certificate(folder: Path) -> tuple[Path, Path]:
    """Return files with a certificate and its key, and with the authority, which it is itself."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "1", "-subj", "/CN=tier", "-keyout", str(folder / "key"),
         "-out", str(folder / "cert")],
        capture_output=True, check=True,
    )  # fmt: skip
    both = folder / "both"
    both.write_text((folder / "cert").read_text() + (folder / "key").read_text())
    return both, folder / "cert"


def _free_port(number: int) -> int:
    with socket.socket() as probe:
        probe.bind((f"127.0.0.{number}", 0))
        port: int = probe.getsockname()[1]
        return port


def end(node: TierNode) -> None:
    """Kill the daemon of a tier, if it runs."""
    if node.process is not None and node.process.poll() is None:
        node.go_on()
        node.kill()


def run_through(
    node: TierNode, *words: str, controller: Path | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end that reads through a tier, as tfm run --tier starts it."""
    environment = {**os.environ, "TF_MALLEABLE_TIER_SOCKET": str(node.socket)}
    environment["TF_MALLEABLE_SOCKET"] = str(controller or node.folder / "no-controller")
    command = [sys.executable, "-m", "tf_malleable_cli", "run", "--tier", "--", *words]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300, check=False, **more
    )
