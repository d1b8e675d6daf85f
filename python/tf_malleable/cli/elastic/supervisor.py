# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Starts, stops and replaces the processes of a training on this machine."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import click

from tf_malleable.cli.elastic import whereabouts
from tf_malleable.cli.elastic.whereabouts import SECRET
from tf_malleable.elastic import wire
from tf_malleable.elastic.errors import COME_AGAIN, MeshError
from tf_malleable.elastic.plan import Address
from tf_malleable.model import OperationError
from tf_malleable.runtime import environment

_LOOK_SECONDS = 0.05
_PAUSE_SECONDS = 0.2
# For how long processes may take to hand over, save, and end.
_GRACE_SECONDS = 30.0
# So many deaths in a row, each so soon after the start, are no accident.
_MOST_DEATHS = 5
_SOON_SECONDS = 10.0


@dataclass
class Numbers:
    """How many workers and servers there are to be, and may be.

    Attributes:
        workers: Wanted now.
        least: The fewest workers.
        most: The most workers.
        servers: Wanted now.
        most_servers: The most servers.
    """

    workers: int
    least: int
    most: int
    servers: int
    most_servers: int


@dataclass
class _Child:
    process: subprocess.Popen[bytes]
    role: str
    since: float
    is_leaving: bool = False


class Supervisor:
    """Runs one training."""

    def __init__(
        self,
        name: str,
        numbers: Numbers,
        shards: int,
        threads: int,
        command: tuple[str, ...],
        *,
        replaces: bool,
        options: tuple[str, ...] = (),
    ) -> None:
        """Prepare.

        Args:
            name: Of the training.
            numbers: How many processes.
            shards: Pieces of each batch.
            threads: Of each worker.
            command: The user's script.
            replaces: Start another worker in place of one that died.
            options: More words for tfm elastic run.
        """
        self._name, self._numbers, self._shards = name, numbers, shards
        self._command, self._replaces, self._options = command, replaces, options
        self._secret = secrets.token_bytes(32)
        self._env = {
            **os.environ,
            SECRET: self._secret.hex(),
            environment.THREADS: str(threads),
        }
        self._threads = threads
        self._address = Address("127.0.0.1", 0)
        self._coordinator: subprocess.Popen[bytes] | None = None
        self._children: list[_Child] = []
        self._is_finished = False
        self._deaths = 0
        self._code = 0
        self._over = threading.Event()
        self._signals: list[int] = []

    def run(self) -> int:
        """Run the training to its end; return its exit code.

        Raises:
            OperationError: There can be no coordinator, or workers die as soon as they start.
        """
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, _: self._signals.append(number))
        try:
            self._start_coordinator()
            threading.Thread(target=self._follow, daemon=True).start()
            while not self._is_over():
                time.sleep(_LOOK_SECONDS)
        finally:
            self._over.set()
            self._end_all()
        return 128 + self._signals[0] if self._signals else self._code

    def _is_over(self) -> bool:
        if self._signals:
            return True
        if self._coordinator is None or self._coordinator.poll() is not None:
            self._start_coordinator()
        for child in [each for each in self._children if each.process.poll() is not None]:
            self._children.remove(child)
            if child.role == "worker":
                self._ended(child)
        if self._code:
            return True
        if self._is_finished:
            return not any(each.role == "worker" for each in self._children)
        for role, wanted in (("worker", self._numbers.workers), ("server", self._numbers.servers)):
            self._resize(role, wanted)
        return not self._replaces and not self._count("worker")

    def _count(self, role: str) -> int:
        return sum(each.role == role and not each.is_leaving for each in self._children)

    def _ended(self, child: _Child) -> None:
        """See why a worker has ended."""
        code = child.process.returncode
        if code == 0:
            if not child.is_leaving and not self._is_finished and not self._has_begun():
                raise OperationError(
                    f"{self._command[0]!r} has ended without a fit() of Keras 3 on TensorFlow,"
                    " which is all that can be elastic"
                )
            self._is_finished = self._is_finished or not child.is_leaving
            return
        if child.is_leaving:
            return
        if 0 < code != COME_AGAIN:
            self._code = code
            return
        why = f"was killed by signal {-code}" if code < 0 else "was cut off from the others"
        self._say(f"worker {child.process.pid} {why}")
        soon = time.monotonic() - child.since < _SOON_SECONDS
        self._deaths = self._deaths + 1 if soon else 0
        if self._deaths > _MOST_DEATHS:
            raise OperationError("workers die as soon as they have started")
        if not self._replaces:
            self._numbers.workers = max(0, self._numbers.workers - 1)

    def _has_begun(self) -> bool:
        """Return whether there ever was a generation; True if that is not known."""
        found = whereabouts.Whereabouts(self._address, self._secret)
        with suppress(OperationError):
            return bool(whereabouts.ask(found, {"kind": "status"})["generation"])
        return True

    def _resize(self, role: str, wanted: int) -> None:
        here = [each for each in self._children if each.role == role and not each.is_leaving]
        # One that is still leaving counts for the coordinator, which refuses too many.
        room = self._shards - sum(each.role == role for each in self._children)
        for _ in range(min(wanted - len(here), room if role == "worker" else wanted)):
            self._start(role)
        for child in here[wanted:] if wanted < len(here) else ():
            child.is_leaving = True
            with suppress(ProcessLookupError):
                child.process.terminate()

    def _start(self, role: str) -> None:
        where = f"{self._address.host}:{self._address.port}"
        tfm = [sys.executable, "-m", "tf_malleable_cli", "elastic"]
        if role == "worker":
            options = ["--coordinator", where, "--cpus", str(self._threads)]
            options += self._options
            words = [*tfm, "run", *options, "--", *self._command]
        else:
            words = [*tfm, "server", "--coordinator", where]
        process = subprocess.Popen(words, env=self._env)
        self._children.append(_Child(process, role, time.monotonic()))

    def _start_coordinator(self) -> None:
        if self._coordinator is not None:
            self._say("the coordinator has died: starting another one")
        where = f"{self._address.host}:{self._address.port}"
        options = ["--listen", where, "--shards", str(self._shards), "--name", self._name]
        options.append("--fresh" if self._coordinator is None else "--resume")
        words = [sys.executable, "-m", "tf_malleable_cli", "elastic", "coordinator", *options]
        self._coordinator = subprocess.Popen(
            words, env=self._env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        assert self._coordinator.stdout is not None
        line = self._coordinator.stdout.readline().decode().strip()
        if not line:
            if self._address.port:
                time.sleep(_PAUSE_SECONDS)  # It is tried again.
                return
            raise OperationError("the coordinator of the training cannot be started")
        host, _, port = line.rpartition(":")
        self._address = Address(host, int(port))

    def _end_all(self) -> None:
        """End all processes; workers may hand over and save what they have."""
        with suppress(ProcessLookupError):
            for child in self._children:
                child.process.send_signal(signal.SIGTERM)
        until = time.monotonic() + _GRACE_SECONDS
        for child in self._children:
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, until - time.monotonic()))
            child.process.kill()
            child.process.wait()
        if self._coordinator is not None:
            self._coordinator.terminate()
            try:
                self._coordinator.wait(_SOON_SECONDS)
            except subprocess.TimeoutExpired:
                self._coordinator.kill()
                self._coordinator.wait()

    # What people want, as the coordinator tells.

    def _follow(self) -> None:
        while not self._over.is_set():
            with suppress(OSError, EOFError, MeshError):
                deadline = time.monotonic() + wire.GREETING_SECONDS
                with wire.connect(self._address, self._secret, deadline) as connection:
                    wire.send(connection, {"kind": "supervise", **vars(self._numbers)}, deadline)
                    self._listen(connection, self._over.is_set)
            self._over.wait(_PAUSE_SECONDS)

    def _listen(self, connection: socket.socket, stopping: Callable[[], bool]) -> None:
        while not stopping():
            message = wire.receive(connection, time.monotonic() + 3600)
            if message.get("kind") == "wanted":
                self._numbers.workers = int(message["workers"])
                self._numbers.servers = int(message["servers"])

    def _say(self, sentence: str) -> None:
        click.echo(f"tfm elastic: {sentence}", err=True)
