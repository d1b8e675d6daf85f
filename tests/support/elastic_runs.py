# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Elastic trainings of real processes for tests: started, killed and frozen one by one."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support import ROOT, zygote
from tests.support.deadline import DEADLINE
from tests.support.elastic_training import STEPS, undisturbed, write_whole
from tests.support.pid_namespaces import Container
from tf_malleable.cli.elastic.training_registry import Whereabouts, ask
from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.settings import SECRET
from tf_malleable.elastic.variables import PLACE
from tf_malleable.model import OperationError

# No worker does so many steps while the test decides when they end.
_AHEAD = 80
WORDS = 3000

Process = zygote.Forked
_TFM = [sys.executable, "-m", "tf_malleable_cli", "elastic"]


class ElasticRun:
    """A coordinator and what was started for it; all is killed in the end."""

    def __init__(
        self,
        folder: Path,
        *,
        shards: int = 4,
        shard_seconds: float = 0.004,
        words: int = WORDS,
    ) -> None:
        """Start a coordinator.

        Args:
            folder: For what processes write.
            shards: Pieces of each batch.
            shard_seconds: How long a shard takes, at least.
            words: Length of the vector.
        """
        self.folder, self.shards, self.words = folder, shards, words
        self._shard_seconds = shard_seconds
        self.secret = secrets.token_bytes(32)
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            SECRET: self.secret.hex(),
        }
        self.errors = folder / "errors.txt"
        self.address = Address("127.0.0.1", 0)
        self.workers: list[Process] = []
        self.servers: list[Process] = []
        self._everything: list[Process] = []
        self._containers: list[Container] = []
        self._has_founder = False
        self.coordinator = self.start_coordinator("--fresh")

    def __enter__(self) -> ElasticRun:
        return self

    def __exit__(self, *_: object) -> None:
        for container in self._containers:
            container.__exit__()
        for process in self._everything:
            process.kill()
            process.communicate()
        print(self.said()[-6000:])  # Shown if the test fails.

    def said(self) -> str:
        """Return what processes have said on stderr."""
        return self.errors.read_text()

    def _start(self, words: list[str], **more: Any) -> Process:
        with self.errors.open("a") as errors:
            process = zygote.popen("numpy")(
                words, stdin=subprocess.DEVNULL, stderr=errors, text=True, **more
            )
        self._everything.append(process)
        return process

    def start_coordinator(self, *options: str) -> Process:
        """Start the coordinator, or another one at the same address."""
        where = f"{self.address.host}:{self.address.port}"
        words = [*_TFM, "coordinator", "--listen", where, "--shards", str(self.shards)]
        words += options
        if self.address.port:
            self.coordinator.wait(DEADLINE)  # Until it has ended, it has the port.
        self.coordinator = self._start(words, env=self._env, stdout=subprocess.PIPE)
        assert self.coordinator.stdout is not None
        host, _, port = self.coordinator.stdout.readline().strip().rpartition(":")
        self.address = Address(host, int(port))
        return self.coordinator

    @property
    def where(self) -> str:
        """The coordinator's address."""
        return f"{self.address.host}:{self.address.port}"

    def start_worker(
        self, *options: str, slower: float = 1.0, secret: bytes | None = None
    ) -> Process:
        """Start a worker.

        Args:
            options: Of tfm elastic run.
            slower: How many times longer it takes for a shard.
            secret: Another one than the training's.
        """
        words = [*_TFM, "run", "--coordinator", self.where, "--cpus", "1", *options, "--"]
        env = self._env if secret is None else {**self._env, SECRET: secret.hex()}
        return self._start_worker([*words, *self._script(slower)], env)

    def start_pod(self, **variables: str) -> Process:
        """Start a worker as in a pod: with tfm run, and by variables of the environment alone."""
        return self._start_worker(*self._pod(variables))

    def start_container(self, **variables: str) -> Container:
        """Start a worker as start_pod(), as the first process of a PID namespace."""
        words, env = self._pod(variables)
        with self.errors.open("a") as errors:
            container = Container(*words, env=env, stdout=subprocess.DEVNULL, stderr=errors)
        self._containers.append(container)
        return container

    def _pod(self, variables: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        words = [*_TFM[:-1], "run", "--", *self._script()]
        asked = {"COORDINATOR": self.where, **variables}
        env = {f"TF_MALLEABLE_ELASTIC_{name}": value for name, value in asked.items()}
        return words, {**self._env, **env}

    def _script(self, slower: float = 1.0) -> list[str]:
        seconds = self._shard_seconds * slower
        script = [sys.executable, "-m", "tests.support.elastic_training", str(self.folder)]
        script += ["--words", str(self.words), "--shard-seconds", str(seconds)]
        if self._has_founder:
            script.append("--own-start")
        self._has_founder = True
        return script

    def _start_worker(self, words: list[str], env: dict[str, str]) -> Process:
        process = self._start(words, env=env)
        self.workers.append(process)
        return process

    def start_server(self, place: str = "") -> Process:
        """Start a server, which status may call something else than its host and process id."""
        words = [*_TFM, "server", "--coordinator", self.where]
        process = self._start(words, env={**self._env, PLACE: place})
        self.servers.append(process)
        return process

    # What is known.

    def status(self) -> dict[str, Any]:
        """Return what the coordinator says; nothing if there is none."""
        end = time.monotonic() + DEADLINE
        while True:
            try:
                return ask(Whereabouts(self.address, self.secret), {"kind": "status"})
            except OperationError:  # Both sides have few seconds for an answer.
                if self.coordinator.poll() is not None or time.monotonic() > end:
                    return {}
                time.sleep(0.02)

    def in_training(self, role: str = "worker") -> list[dict[str, Any]]:
        """Return the processes of the present generation; none while that changes."""
        status = self.status()
        found = status.get("processes", []) if status.get("phase") == "steady" else []
        return [p for p in found if p["role"] == role and p["state"] == "in the training"]

    def wait_for_members(self, count: int, role: str = "worker") -> None:
        """Wait until so many take part, and a change is not going on."""

        def is_so() -> bool:
            status = self.status()
            found = [p for p in status.get("processes", []) if p["state"] == "in the training"]
            return status.get("phase") == "steady" and count == sum(
                p["role"] == role for p in found
            )

        wait_until(is_so, self._why)

    def wait_for_step(self, step: int) -> None:
        """Wait until a member is at this step."""
        wait_until(lambda: self.status().get("step", 0) >= step, self._why)

    def pids(self, role: str = "worker") -> list[int]:
        """Return the process ids of the present generation, the lead's first."""
        return [int(p["place"].rpartition(":")[2]) for p in self.in_training(role)]

    def rescales(self) -> list[dict[str, Any]]:
        """Return all rescales."""
        found: list[dict[str, Any]] = self.status().get("rescales", [])
        return found

    def is_one_training(self) -> bool:
        """Return whether nobody ever began again, and nobody failed."""
        said = self.said()
        return "begins again" not in said and "Traceback" not in said and "Error" not in said

    # The end.

    def results(self) -> list[dict[str, Any]]:
        """Return what processes that have ended in peace have said."""
        return [json.loads(path.read_text()) for path in self.folder.glob("*.json")]

    def trained(self) -> list[dict[str, Any]]:
        """Return what those have said that have trained to the end."""
        return [each for each in self.results() if each["how"] == "trained"]

    def end_at(self, step: int) -> None:
        """Decide how long the training is; nobody may be that far yet."""
        write_whole(self.folder / STEPS, str(step))

    def finish(self, least: int = 1, step: int = 0) -> list[dict[str, Any]]:
        """Have it end; all who come to the end must have the undisturbed run's state.

        Args:
            least: How many must come to it.
            step: At least as far as any worker is.
        """
        if not (self.folder / STEPS).exists():
            # A coordinator that had no CPU for a while does not know at once how far it is.
            self.wait_for_step(self.status().get("step", 0) + 1)
            self.end_at(max(step, self.status()["step"]) + _AHEAD)
        steps = int((self.folder / STEPS).read_text())
        wait_until(lambda: all(each.poll() is not None for each in self.workers), self._why)
        found = self.trained()
        assert len(found) >= least, f"{len(found)} of {self.results()}"
        assert {each["step"] for each in found} == {steps}
        expected = undisturbed(self.words, steps, self.shards)
        assert {each["digest"] for each in found} == {expected}
        assert sum(each["lead"] for each in found) == 1
        return found

    def _why(self) -> str:
        return json.dumps(self.status(), indent=1)


def wait_until(condition: Callable[[], bool], why: Callable[[], str]) -> None:
    """Wait for what must happen; if it does not, say what is known."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, why()
        time.sleep(0.02)


def freeze(pid: int) -> None:
    """Stop a process, as a host that hangs would."""
    os.kill(pid, signal.SIGSTOP)


def thaw(pid: int) -> None:
    """Let it go on."""
    os.kill(pid, signal.SIGCONT)
