# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Child processes of a training on this machine: coordinator, workers and servers."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tf_malleable.api.schema.join import JOIN
from tf_malleable.cli.elastic.supervised import spared
from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.settings import SECRET
from tf_malleable.linux.processes import procfs
from tf_malleable.model import OperationError
from tf_malleable.runtime import environment

# How long processes may take to hand over, save and exit.
_GRACE_SECONDS: Final = 30.0
_COORDINATOR_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.2
_LOOK_SECONDS: Final = 0.05


@dataclass
class Child:
    """A worker or server.

    Attributes:
        process: Handle of the process.
        role: ``"worker"`` or ``"server"``.
        since: Time of its start, in seconds of the monotonic clock.
        is_leaving: True once the process was told to go, or is going.
    """

    process: subprocess.Popen[bytes]
    role: str
    since: float
    is_leaving: bool = False


@dataclass(frozen=True)
class Script:
    """Program that each worker runs.

    Attributes:
        command: The user's program and its arguments.
        options: Further options for tfm elastic run.
        threads: Threads of each worker; None if they follow the CPUs that it may use.
    """

    command: tuple[str, ...]
    options: tuple[str, ...]
    threads: int | None


class Processes:
    """Starts and ends the processes of a training.

    Attributes:
        secret: Secret of the training.
        address: Address of the coordinator.
        children: Workers and servers, in order of their start.
    """

    def __init__(self, name: str, shards: int, script: Script) -> None:
        """Create the secret and the environment of the processes, but start none.

        Args:
            name: Name of the training.
            shards: Number of shards of each batch.
            script: Program that each worker runs.
        """
        self._name, self._shards, self._script = name, shards, script
        self.secret = secrets.token_bytes(32)
        self.address = Address("127.0.0.1", 0)
        self.children: list[Child] = []
        self._coordinator: subprocess.Popen[bytes] | None = None
        self._supervised = ["--supervised", str(os.getpid())]
        self._env = _environment(self.secret, script.threads)

    def start(self, role: str, cpus: int) -> None:
        """Start a server, or a worker that is to have this number of CPUs."""
        where = f"{self.address.host}:{self.address.port}"
        if role == "worker":
            options = ["--coordinator", where, "--cpus", str(cpus), *self._script.options]
            words = [*_TFM, "run", *self._supervised, *options, "--", *self._script.command]
        else:
            words = [*_TFM, "server", *self._supervised, "--coordinator", where]
        with spared():
            process = subprocess.Popen(words, env=self._env, stdin=subprocess.DEVNULL)
        self.children.append(Child(process, role, time.monotonic()))

    def of(self, role: str) -> list[Child]:
        """Return the children of this role that are not leaving."""
        return [each for each in self.children if each.role == role and not each.is_leaving]

    def ended(self) -> list[Child]:
        """Return the children that have ended since the last call."""
        found = [each for each in self.children if each.process.poll() is not None]
        self.children = [each for each in self.children if each not in found]
        return found

    def dismiss(self, child: Child) -> None:
        """Tell a child to hand over and go."""
        child.is_leaving = True
        with suppress(ProcessLookupError):
            child.process.terminate()

    # The coordinator.

    def is_coordinated(self) -> bool:
        """Return whether the coordinator is alive."""
        return self._coordinator is not None and self._coordinator.poll() is None

    def start_coordinator(self) -> None:
        """Start the coordinator, or another one at the same address.

        Raises:
            OperationError: The first one cannot be started.
        """
        where = f"{self.address.host}:{self.address.port}"
        options = ["--listen", where, "--shards", str(self._shards), "--name", self._name]
        options.append("--fresh" if self._coordinator is None else "--resume")
        with spared():
            self._coordinator = subprocess.Popen(
                [*_TFM, "coordinator", *self._supervised, *options],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
            )
        assert self._coordinator.stdout is not None
        line = self._coordinator.stdout.readline().decode().strip()
        if not line:
            if self.address.port:
                time.sleep(_PAUSE_SECONDS)  # The supervisor tries again.
                return
            raise OperationError("the coordinator of the training cannot be started")
        host, _, port = line.rpartition(":")
        self.address = Address(host, int(port))

    # The end.

    def end(self, is_urgent: Callable[[], bool]) -> None:
        """End all processes; workers may hand over and save their state.

        Args:
            is_urgent: Returns True if the processes are to be killed.
        """
        for child in self.children:
            self.dismiss(child)
        until = time.monotonic() + _GRACE_SECONDS
        while any(each.process.poll() is None for each in self.children):
            if is_urgent() or time.monotonic() > until:
                break
            time.sleep(_LOOK_SECONDS)
        for child in self.children:
            child.process.kill()
            child.process.wait()
        if self._coordinator is not None:
            self._coordinator.send_signal(signal.SIGTERM)
            try:
                self._coordinator.wait(_COORDINATOR_SECONDS)
            except subprocess.TimeoutExpired:
                self._coordinator.kill()
                self._coordinator.wait()


def started_by(pid: int, children: Collection[int]) -> int | None:
    """Return the pid of the child that is this process or its ancestor; None if there is none."""
    return next((each for each in procfs.ancestors(pid) if each in children), None)


_TFM = [sys.executable, "-m", "tf_malleable_cli", "elastic"]


def _environment(secret: bytes, threads: int | None) -> Mapping[str, str]:
    found = {**os.environ, SECRET: secret.hex()}
    if threads is not None:
        return {**found, environment.THREADS: str(threads)}
    # The training is one job, and splits its grant: a worker's limits follow its CPUs.
    for name in (JOIN, environment.THREADS):
        found.pop(name, None)
    return {**found, environment.FOLLOW_CGROUP: "1"}
