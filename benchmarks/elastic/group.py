# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The processes of one elastic training on this machine, started and ended one by one."""

from __future__ import annotations

import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import tf_malleable
from benchmarks.common.children import REPOSITORY, clean_environment
from benchmarks.common.command_line import BenchmarkError
from tf_malleable.cli.elastic.training_registry import Whereabouts, ask
from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.settings import SECRET
from tf_malleable.model import OperationError
from tf_malleable.runtime.environment import THREADS

_TFM: Final = [sys.executable, "-m", "tf_malleable_cli", "elastic"]
_PATIENCE_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 0.02


class Process(subprocess.Popen[str]):
    """A program that is told and asked something by lines."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str], *kept: socket.socket) -> None:
        """Start it in the repository.

        Args:
            words: Command.
            env: Its whole environment.
            kept: Sockets that it inherits.
        """
        # A pipe that nobody reads could fill.
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as this lives
        super().__init__(
            words,
            cwd=REPOSITORY,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            pass_fds=[each.fileno() for each in kept],
            start_new_session=True,
        )

    def problem(self) -> BenchmarkError:
        """Return that it has ended too early, and what it last said."""
        self.wait()
        self._errors.seek(0)
        lines = self._errors.read().splitlines()
        last = f": {lines[-1]}" if lines else ""
        return BenchmarkError(f"a process has ended with {self.returncode} too early{last}")

    def end(self) -> None:
        """Kill it."""
        self.kill()
        self.communicate()
        self._errors.close()


def environment(**variables: str) -> dict[str, str]:
    """Return a clean environment in which programs find the package of this process."""
    package = str(Path(tf_malleable.__file__).parents[1])
    return clean_environment({"PYTHONPATH": package, **variables})


class Group:
    """A coordinator, workers and servers.

    Attributes:
        workers: The workers, in the order of their starts.
        servers: The servers.
    """

    def __init__(self, shards: int = 4) -> None:
        """Start the coordinator."""
        secret = secrets.token_bytes(32)
        self._env = environment(**{SECRET: secret.hex()})
        self.workers: list[Process] = []
        self.servers: list[Process] = []
        self._gone: list[Process] = []
        self._coordinator = Process(
            [*_TFM, "coordinator", "--fresh", "--shards", str(shards)], self._env
        )
        assert self._coordinator.stdout is not None
        self._where = self._coordinator.stdout.readline().strip()
        host, _, port = self._where.rpartition(":")
        if not port:
            raise self._coordinator.problem()
        self._address = Whereabouts(Address(host, int(port)), secret)

    def __len__(self) -> int:
        """Return how many workers and servers there are."""
        return len(self.workers) + len(self.servers)

    def add_worker(
        self,
        program: Sequence[str],
        threads: int = 1,
        prefix: Sequence[str] = (),
        options: Sequence[str] = (),
    ) -> Process:
        """Start a worker, without waiting for it.

        Args:
            program: Arguments of Python.
            threads: Threads of the worker.
            prefix: Words before the command, such as taskset's.
            options: More words for tfm elastic run.
        """
        words = [*prefix, *_TFM, "run", "--coordinator", self._where, "--cpus", str(threads)]
        words += [*options, "--", sys.executable, *program]
        said = {
            THREADS: str(threads),
            "TF_NUM_INTRAOP_THREADS": str(threads),
            "TF_NUM_INTEROP_THREADS": str(threads),
        }
        self.workers.append(Process(words, {**self._env, **said}))
        return self.workers[-1]

    def add_server(self) -> Process:
        """Start a server, without waiting for it."""
        self.servers.append(Process([*_TFM, "server", "--coordinator", self._where], self._env))
        return self.servers[-1]

    def remove(self, worker: Process, number: signal.Signals) -> None:
        """End a worker: by SIGTERM it hands over, by SIGKILL not."""
        self.workers.remove(worker)
        self._gone.append(worker)
        worker.send_signal(number)

    @property
    def processes(self) -> list[Process]:
        """All of its processes."""
        return [*self.workers, *self.servers, self._coordinator]

    def status(self) -> dict[str, Any]:
        """Return what the coordinator says."""
        try:
            return ask(self._address, {"kind": "status"})
        except OperationError as error:
            raise BenchmarkError(str(error)) from None

    @property
    def is_settled(self) -> bool:
        """True if all take part, nobody else does, and nothing goes on."""
        status = self.status()
        here = [each for each in status["processes"] if each["state"] == "in the training"]
        is_steady = status["phase"] == "steady"
        return is_steady and len(here) == len(status["processes"]) == len(self)

    def settle(self, rest_seconds: float = 0.0) -> None:
        """Wait until it is settled, and then a little.

        Raises:
            BenchmarkError: It does not happen, or a process has ended.
        """
        wait_until(lambda: self.is_settled, self.processes)
        time.sleep(rest_seconds)

    def end(self) -> None:
        """Kill all."""
        for process in (*self.processes, *self._gone):
            process.end()


@contextmanager
def group(shards: int = 4) -> Iterator[Group]:
    """Run a group for a while."""
    found = Group(shards)
    try:
        yield found
    finally:
        found.end()


def wait_until(condition: Callable[[], bool], alive: Sequence[Process] = ()) -> None:
    """Wait for a condition.

    Raises:
        BenchmarkError: It does not come true, or a process has ended meanwhile.
    """
    end = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        ended = [each for each in alive if each.poll() is not None]
        if ended and not condition():
            raise ended[0].problem()
        if time.monotonic() > end:
            raise BenchmarkError("workers do not come to rest")
        time.sleep(_LOOK_SECONDS)
