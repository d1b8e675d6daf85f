# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A controller's service with jobs, and pages on it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.controllers import start_tfm
from tests.support.crowd import Crowd
from tests.support.deadline import DEADLINE
from tests.support.fixtures import directory as directory
from tests.support.fixtures import group as group


class Served:
    """A tfm web process that is ready."""

    def __init__(self, socket: Path, *options: str) -> None:
        self.process = start_tfm(
            "web", *options, "--socket", str(socket), stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        found = re.search(r"http://\S+", self.said)
        self.url = "" if found is None else found[0]
        self.base, _, self.token = self.url.partition("#token=")

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(DEADLINE)


@contextmanager
def served(socket: Path, *options: str) -> Iterator[Served]:
    """Run tfm web for the length of a with statement."""
    running = Served(socket, *(options or ("--port", "0")))
    try:
        yield running
    finally:
        running.process.kill()
        running.process.communicate(timeout=DEADLINE)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A controller's service with 8 CPUs and no job."""
    running = Crowd(tmp_path_factory.mktemp("crowd"), 8, "fcfs-strict")
    yield running
    running.close()


@pytest.fixture(scope="module")
def web(crowd):
    """A page of this service."""
    with served(crowd.socket) as running:
        yield running
