# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Creation of containers that are jobs: image, labels, and access to the controller."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import docker

from tf_malleable.api.transport.address import SOCKET
from tf_malleable.containers.engine import Engine, EngineRefusedError, NoSuchContainerError
from tf_malleable.containers.labels import Labels

# Mount point of the directory of the controller's socket in the container.
_FOLDER: Final = "/run/tf_malleable"


@dataclass(frozen=True)
class Recipe:
    """The container to create.

    Attributes:
        image: Name or id; pulled if it does not exist locally.
        command: Program and arguments; empty for the image's own.
        labels: Labels of the job.
        user_labels: Further labels given by the user.
        environment: Variables, each ``"NAME=value"``.
        volumes: Volumes, each ``"HOST:CONTAINER[:OPTIONS]"``.
        options: Further arguments of the SDK's ``containers.create()``.
    """

    image: str
    command: Sequence[str]
    labels: Labels
    user_labels: Mapping[str, str] = field(default_factory=dict)
    environment: Sequence[str] = ()
    volumes: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


def fetch(engine: Engine, image: str, notice: Callable[[str], None]) -> None:
    """Pull an image if it does not exist locally.

    Args:
        engine: Engine that needs the image.
        image: Name of the image.
        notice: Called with a sentence before pulling, which takes time.

    Raises:
        EngineGoneError, EngineRefusedError: The image cannot be pulled.
    """
    try:
        with engine.calling() as client:
            client.images.get(image)
    except NoSuchContainerError:
        notice(f"pulling image {image}")
        patient = Engine(engine.host, timeout=None)
        try:
            with patient.calling() as client:
                repository, tag = docker.utils.parse_repository_tag(image)
                client.images.pull(repository, tag=tag or "latest")
        except EngineRefusedError as error:
            raise EngineRefusedError(
                f"cannot pull image {image}, which does not exist locally: {error}"
            ) from None


def create(engine: Engine, recipe: Recipe) -> str:
    """Create a container without starting it, and return its id.

    Raises:
        EngineGoneError, EngineRefusedError: It cannot be created.
    """
    volumes, environment = list(recipe.volumes), list(recipe.environment)
    socket = Path(recipe.labels.socket)
    if socket.parent.is_dir():
        # Mount the directory: a restarted controller creates a new socket in it.
        volumes.append(f"{socket.parent}:{_FOLDER}:ro")
        environment.append(f"{SOCKET}={_FOLDER}/{socket.name}")
    with engine.calling() as client:
        made = client.containers.create(
            recipe.image,
            list(recipe.command) or None,
            labels={**recipe.user_labels, **recipe.labels.write()},
            environment=environment,
            volumes=volumes,
            **recipe.options,
        )
        return str(made.id)


def host_path(volume: str) -> str:
    """Return a volume, ``HOST:CONTAINER[:OPTIONS]``, with a relative host path made absolute."""
    host, colon, rest = volume.partition(":")
    return f"{os.path.abspath(host)}{colon}{rest}" if host.startswith(".") else volume
