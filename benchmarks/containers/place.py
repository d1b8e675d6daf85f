# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Containers for benchmarks: this Python in them, and none left in the end."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.common.children import REPOSITORY
from benchmarks.common.configurations import TFM
from benchmarks.common.trainings import TRAININGS
from benchmarks.common.worker.client import Process, Worker
from examples.container_image import ImageError, container_image
from tf_malleable.containers.engine import Engine, EngineGoneError, EngineRefusedError
from tf_malleable.model import OperationError

# Each says in one sentence why a measurement with containers cannot go on.
ERRORS: Final = (EngineGoneError, EngineRefusedError, ImageError, OperationError)
_LABEL: Final = f"tf_malleable-benchmark={os.getpid()}"


@dataclass(frozen=True)
class Place:
    """An engine with an image that runs this Python.

    Attributes:
        client: Client of the engine, from Docker's SDK.
        image: Tag of the image; its entry point is `tfm run --`.
        volumes: Mounts that its containers need, as ``"/path:/path:ro"``.
    """

    client: Any
    image: str
    volumes: tuple[str, ...]
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def name(self) -> str:
        """Return a name that no container has."""
        return f"tfm-benchmark-{os.getpid()}-{next(self._numbers)}"

    def mounts(self) -> list[str]:
        """Return its mounts as options of `docker run`."""
        return [word for volume in self.volumes for word in ("-v", volume)]

    def stock(self, *options: str, environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Return what goes before a program to run it in a container without us."""
        return ("docker", *self._run(options, environment), "--entrypoint", "env", self.image)

    def followed(
        self, *options: str, environment: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """Return what goes before a program to run it in a container that follows its CPUs."""
        return ("docker", *self._run(options, environment), self.image)

    def job(self, socket: Path, name: str) -> tuple[str, ...]:
        """Return options that make a container a job of the controller at a socket.

        For containers that read stdin, which `tfm container run` does not support.
        """
        inside = Path("/run/tf_malleable")
        return (
            *("--name", name, "--label", f"tf_malleable.job={name}"),
            *("--label", f"tf_malleable.socket={socket}", "-v", f"{socket.parent}:{inside}:ro"),
            *("-e", f"TF_MALLEABLE_SOCKET={inside / socket.name}"),
        )

    def controlled(
        self, *options: str, environment: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """Return what goes before a program to run it as a job of a controller."""
        _, _, *words = self._run(options, environment)
        return (TFM, "container", "run", "--rm", "--image", self.image, *words, "--")

    def _run(self, options: Sequence[str], environment: Mapping[str, str] | None) -> list[str]:
        said = {"TF_CPP_MIN_LOG_LEVEL": "3", **(environment or {})}
        variables = [word for name, value in said.items() for word in ("-e", f"{name}={value}")]
        return [
            *("run", "--rm", "--label", _LABEL),
            # Where Python finds what a worker imports.
            *("--workdir", str(REPOSITORY)),
            *self.mounts(),
            *variables,
            *options,
        ]

    @contextmanager
    def worker(
        self, process: Process, workloads: tuple[str, ...], prefix: Sequence[str]
    ) -> Iterator[Worker]:
        """Start a worker in a container and end it."""
        worker = Worker(process, workloads, prefix)
        try:
            worker.wait_ready()
            yield worker
        finally:
            worker.hang_up()
            worker.stop()

    def remove_all(self) -> None:
        """Remove all containers that were made here."""
        for container in self.client.containers.list(all=True, filters={"label": _LABEL}):
            container.remove(force=True)


@contextmanager
def place() -> Iterator[Place]:
    """Provide an image for the length of the with statement.

    It is in the engine that DOCKER_HOST names, or in the usual one.

    Raises:
        EngineGoneError, ImageError: There is none.
    """
    client = Engine(timeout=None).client
    tag = f"tf_malleable-benchmark-{os.getpid()}"
    with container_image(client, tag, (REPOSITORY / "benchmarks", TRAININGS)) as image:
        found = Place(client, image.tag, image.volumes)
        try:
            yield found
        finally:
            found.remove_all()
