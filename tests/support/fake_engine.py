# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A container engine of one container, which does, or refuses, what a test says."""

from __future__ import annotations

from typing import Any

from tf_malleable.containers.engine import Update


class FakeEngine:
    """Takes the calls that tf_malleable.containers makes to change a container.

    Attributes:
        state: The container's state, as an engine says it.
        labels: Its labels.
        calls: The calls so far, by name; only those that change something.
        failures: What a call raises, by name.
    """

    def __init__(self, pid: int = 4321) -> None:
        self.state: dict[str, Any] = {
            "Status": "running",
            "Running": True,
            "Paused": False,
            "Pid": pid,
            "ExitCode": 0,
            "Error": "",
            "StartedAt": "2026-01-01T00:00:00Z",
        }
        self.labels = {"tf_malleable.job": "training"}
        self.calls: list[str] = []
        self.failures: dict[str, Exception] = {}

    def inspect(self, container: str) -> dict[str, Any]:
        return {
            "Id": container,
            "Name": "/training",
            "Config": {"Image": "image", "Cmd": ["train.py"], "Labels": dict(self.labels)},
            "HostConfig": {"NanoCpus": 0},
            "State": dict(self.state),
        }

    def update(self, container: str, change: Update) -> None:
        self._call("update")

    def start(self, container: str) -> None:
        self._call("start")
        self.state.update(Status="running", Running=True)

    def pause(self, container: str) -> None:
        self._call("pause")
        self.state.update(Status="paused", Paused=True)

    def unpause(self, container: str) -> None:
        self._call("unpause")
        self.state.update(Status="running", Paused=False)

    def kill(self, container: str, signal: str) -> None:
        self._call(signal)

    def remove(self, container: str) -> None:
        self._call("remove")

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.failures:
            raise self.failures[name]
