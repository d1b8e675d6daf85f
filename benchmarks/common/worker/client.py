# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Starts the worker processes, talks to them, and leaves none behind."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.common.children import REPOSITORY, clean_environment
from benchmarks.common.command_line import BenchmarkError

_ANSWER_SECONDS = 180.0
_EXIT_SECONDS = 2.0


@dataclass(frozen=True)
class Process:
    """How one process under measurement is started.

    ``threads`` is what TensorFlow is told in TF_NUM_INTRAOP_THREADS and
    TF_NUM_INTEROP_THREADS, None for nothing; ``most`` is TF_MALLEABLE_MAX_THREADS, and
    ``first`` the limit from the beginning, TF_MALLEABLE_THREADS. With ``onednn``, ops that
    oneDNN has are its own on any CPU.
    """

    name: str
    ours: bool
    threads: int | None = None
    most: int | None = None
    first: int | None = None
    onednn: bool = False

    @property
    def environment(self) -> dict[str, str]:
        """The variables that say so."""
        variables = {}
        if self.threads is not None:
            variables["TF_NUM_INTRAOP_THREADS"] = str(self.threads)
            variables["TF_NUM_INTEROP_THREADS"] = str(self.threads)
        if self.most is not None:
            variables["TF_MALLEABLE_MAX_THREADS"] = str(self.most)
        if self.first is not None:
            variables["TF_MALLEABLE_THREADS"] = str(self.first)
        if self.onednn:
            variables["TF_ENABLE_ONEDNN_OPTS"] = "1"
        return variables


class WorkerError(BenchmarkError):
    """A worker ended, did not answer, or is not what it should be."""


class Worker:
    """One worker process. Not thread-safe."""

    def __init__(
        self, process: Process, workloads: tuple[str, ...], prefix: Sequence[str] = ()
    ) -> None:
        """Start it.

        Args:
            process: How it is started.
            workloads: Names of the workloads it is to prepare.
            prefix: First words of its command, which run it in a container, say.
        """
        self.name = process.name
        self._expects_ours = process.ours
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in stop().
        options = {"ours": process.ours, "workloads": workloads}
        self._process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "benchmarks.common.worker", json.dumps(options)],
            # Where Python finds it; in a container the prefix says so.
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=clean_environment(process.environment),
            bufsize=0,
            # Ctrl-C is for us: we stop the workers.
            start_new_session=True,
        )
        self._unread = b""

    def wait_ready(self) -> dict[str, Any]:
        """Wait for the greeting; return what the worker says it is.

        Raises:
            WorkerError: It is no worker of the kind asked for.
        """
        hello: dict[str, Any] = self._answer()
        if (hello["backend"] is not None) != self._expects_ours:
            raise WorkerError(f"{self.name}: backend is {hello['backend']}")
        return hello

    def ask(self, do: str, **arguments: object) -> Any:  # noqa: ANN401 - any JSON
        """Send a command and return its answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        except BrokenPipeError:
            raise WorkerError(self._last_words()) from None
        return self._answer()

    def _answer(self) -> Any:  # noqa: ANN401 - any JSON
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        deadline = time.monotonic() + _ANSWER_SECONDS
        while b"\n" not in self._unread:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise WorkerError(f"{self.name}: no answer for {_ANSWER_SECONDS:.0f} s")
            received = os.read(pipe, 1 << 16)
            if not received:
                raise WorkerError(self._last_words())
            self._unread += received
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    def _last_words(self) -> str:
        self._process.wait(_EXIT_SECONDS)
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f"{self.name}: ended ({self._process.returncode}): {lines[-1] if lines else ''}"

    def hang_up(self) -> None:
        """Let the worker know that no command will follow."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        try:
            self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._errors.close()


def _hang_up(everyone: Iterable[Worker]) -> None:
    for worker in everyone:
        worker.hang_up()


@contextmanager
def workers(
    needed: Mapping[Process, tuple[str, ...]],
) -> Iterator[dict[Process, Worker]]:
    """Start a worker for each process, all at once; stop them all at the end."""
    with ExitStack() as stack:
        started: dict[Process, Worker] = {}
        for process, workloads in needed.items():
            worker = Worker(process, workloads)
            stack.callback(worker.stop)
            started[process] = worker
        # Before any is waited for: they end side by side.
        stack.callback(_hang_up, started.values())
        yield started
