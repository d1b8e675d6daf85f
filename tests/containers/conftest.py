# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A Docker engine, and an image in it that runs this Python with its TensorFlow."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import docker
import pytest
from docker_engine import NO_ENGINE, running_engine
from dockerd import EngineError
from make_test_image import make_test_image, volumes

from tests.support.containers import Containers


def _do_without(why: str) -> NoReturn:
    """Skip the tests that need an engine; where all must run, fail them."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"no Docker engine: {why}", pytrace=False)
    pytest.skip(f"no Docker engine: {why}")


@pytest.fixture(scope="session")
def docker_host() -> Iterator[str]:
    """Give the ``"unix://…"`` of an engine, which is DOCKER_HOST meanwhile."""
    if NO_ENGINE in os.environ:
        _do_without(os.environ[NO_ENGINE])
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        try:
            host = stack.enter_context(running_engine())
        except EngineError as error:
            _do_without(str(error))
        patch.setenv("DOCKER_HOST", host)
        yield host


@pytest.fixture(scope="session")
def test_image(docker_host: str) -> Iterator[str]:
    """Give the tag of an image that is for this session alone."""
    client = docker.DockerClient(base_url=docker_host)
    tag = make_test_image(client, f"tf_malleable-test-{uuid.uuid4().hex[:12]}")
    yield tag
    client.images.remove(tag, force=True)
    client.close()


@pytest.fixture(scope="session")
def image_volumes() -> list[str]:
    """Return the mounts that a container of the image needs."""
    return volumes()


@pytest.fixture
def containers(
    docker_host: str, test_image: str, image_volumes: list[str], tmp_path: Path
) -> Iterator[Containers]:
    """Give containers of the test image, all removed after the test."""
    ours = Containers(docker_host, test_image, image_volumes, tmp_path)
    yield ours
    ours.remove()
