# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Making a container that is a job: its image, its labels, the way to its controller."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import docker

from tf_malleable.api.address import SOCKET
from tf_malleable.containers.engine import Engine, EngineRefusedError, NoSuchContainerError
from tf_malleable.containers.labels import Labels

# Where the folder of the controller's socket is inside.
_FOLDER: Final = "/run/tf_malleable"


@dataclass(frozen=True)
class Recipe:
    """What to make.

    Attributes:
        image: By name or id; fetched if it is not there.
        command: Program and arguments; empty for the image's own.
        labels: Of the job.
        user_labels: Those that the user wants besides.
        environment: ``"NAME=value"`` each.
        volumes: ``"HOST:CONTAINER[:OPTIONS]"`` each.
        options: Others of the SDK's ``containers.create()``.
    """

    image: str
    command: Sequence[str]
    labels: Labels
    user_labels: Mapping[str, str] = field(default_factory=dict)
    environment: Sequence[str] = ()
    volumes: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


def fetch(engine: Engine, image: str, notice: Callable[[str], None]) -> None:
    """Have an image, from its registry if it is not there.

    Args:
        engine: Where.
        image: Its name.
        notice: Is called with a sentence before something that takes time.

    Raises:
        EngineGoneError, EngineRefusedError: It cannot be had.
    """
    try:
        with engine.calling() as client:
            client.images.get(image)
    except NoSuchContainerError:
        notice(f"image {image} is not here yet, pulling it")
        patient = Engine(engine.host, timeout=None)
        try:
            with patient.calling() as client:
                repository, tag = docker.utils.parse_repository_tag(image)
                client.images.pull(repository, tag=tag or "latest")
        except EngineRefusedError as error:
            raise EngineRefusedError(
                f"there is no image {image} here, and it cannot be pulled: {error}"
            ) from None


def create(engine: Engine, recipe: Recipe) -> str:
    """Make a container, not started yet, and return its id.

    Raises:
        EngineGoneError, EngineRefusedError: It cannot be made.
    """
    volumes, environment = list(recipe.volumes), list(recipe.environment)
    socket = Path(recipe.labels.socket)
    if socket.parent.is_dir():
        # The folder: a controller that comes back makes a new socket.
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
    """Return a volume, ``HOST:CONTAINER[:OPTIONS]``, with its path from here made absolute."""
    host, colon, rest = volume.partition(":")
    return f"{os.path.abspath(host)}{colon}{rest}" if host.startswith(".") else volume
