# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A controller, containers that are its jobs, and what the kernel says of them."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
from docker.models.containers import Container
from make_test_image import make_test_image

from tests.support import commands, controllers
from tests.support.controllers import TFM, wait_for
from tf_malleable.linux.cgroups.cgroup_files import CgroupFiles, State

SLEEP = "trap 'exit 0' TERM; sleep 600 & wait"
BUSY = "trap 'exit 0' TERM; while :; do :; done"


class Containers:
    """Containers that are jobs of one controller, or of none."""

    def __init__(self, host: str, image: str, volumes: list[str], directory: Path) -> None:
        self.host, self.image, self.volumes = host, image, volumes
        self.directory = directory
        self.socket = directory / "run" / "controller.sock"
        self.client = docker.DockerClient(base_url=host)
        self._prefix = uuid.uuid4().hex[:8]

    @contextmanager
    def controller(self, *options: str) -> Iterator[controllers.Controller]:
        with controllers.controller(self.directory, *options) as running:
            yield running

    def command(self, *options: str, script: str | None = SLEEP) -> list[str]:
        """Return the command that runs a shell script in a container, or what options end in."""
        mounts = [word for volume in self.volumes for word in ("-v", volume)]
        command = [TFM, "container", "run", "--image", self.image, *mounts]
        command += ["--socket", str(self.socket), *options]
        return (
            command if script is None else [*command, "--entrypoint", "/bin/sh", "--", "-c", script]
        )

    def run(self, *options: str, script: str | None = SLEEP) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*options, script=script),
            capture_output=True,
            text=True,
            timeout=controllers.DEADLINE,
            stdin=subprocess.DEVNULL,
        )

    def popen(self, *options: str, script: str | None = SLEEP) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*options, script=script),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    def start(self, name: str, *options: str, script: str | None = SLEEP) -> str:
        """Run a container in the background; return its full name."""
        name = self.name(name)
        done = self.run("--detach", "--name", name, *options, script=script)
        assert (done.returncode, done.stderr) == (0, ""), done
        return name

    def name(self, name: str) -> str:
        """Return a name that no other test's container has."""
        return f"{self._prefix}-{name}"

    def tfm(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return commands.tfm(*arguments, "--socket", str(self.socket))

    def jobs(self) -> dict[str, dict[str, Any]]:
        """Return the jobs that are containers, by name."""
        status, answer = controllers.ask(self.socket, "GET", "/v1/jobs")
        assert status == 200
        return {job["container"]["name"]: job for job in answer["jobs"] if job["container"]}

    def ended(self, count: int) -> list[dict[str, Any]]:
        """Return what has ended, once there is so much, in order of their ids."""

        def enough() -> list[dict[str, Any]]:
            _, answer = controllers.ask(self.socket, "GET", "/v1/history")
            found: list[dict[str, Any]] = answer["jobs"]
            return found if len(found) >= count else []

        return sorted(wait_for(enough), key=lambda record: int(record["id"]))

    def until(self, name: str, **fields: Any) -> dict[str, Any]:
        """Return a job once it is so."""

        def so() -> dict[str, Any]:
            job = self.jobs().get(name, {})
            return job if all(job.get(key) == value for key, value in fields.items()) else {}

        return wait_for(so)

    def actual(self, **counts: int) -> dict[str, dict[str, Any]]:
        """Return the jobs once each of them has so many cores in force."""

        def so() -> dict[str, Any]:
            jobs = self.jobs()
            found = {name: jobs.get(self.name(name)) for name in counts}
            has = all(job and len(job["actual"]) == counts[name] for name, job in found.items())
            return jobs if has else {}

        return wait_for(so)

    def kernel(self, name: str) -> State:
        """Return what the container's cgroup files say."""
        return self.kernel_of(self.inspect(name)["State"]["Pid"])

    def kernel_of(self, pid: int) -> State:
        """Return what the cgroup files of a container's process say; the engine is not asked."""
        files = CgroupFiles(pid)
        try:
            return files.read()
        finally:
            files.close()

    def inspect(self, name: str) -> dict[str, Any]:
        attributes: dict[str, Any] = self.client.api.inspect_container(name)
        return attributes

    def names(self) -> list[str]:
        """Return the names of all containers there are of this test."""
        found = self.client.api.containers(all=True)
        names = [name.lstrip("/") for each in found for name in each["Names"]]
        return sorted(name for name in names if name.startswith(self._prefix))

    def remove(self) -> None:
        """Remove all containers that name this controller, or were made by this test."""
        label = f"tf_malleable.socket={self.socket}"
        ids = {self.inspect(name)["Id"] for name in self.names()}
        ids |= {c["Id"] for c in self.client.api.containers(all=True, filters={"label": label})}
        for container in ids:
            self.client.api.remove_container(container, force=True, v=True)
        self.client.close()


def start_sleeper(host: str) -> Container:
    """Start a container of an engine, which ends only if it is killed."""
    client = docker.DockerClient(base_url=host)
    tag = make_test_image(client)
    return client.containers.run(
        tag,
        ["600"],
        entrypoint=["sleep"],
        volumes=["/usr:/usr:ro"],
        stop_signal="KILL",
        detach=True,
    )


def events(output: str) -> list[Any]:
    """Return the JSON objects that a container has printed, one a line."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]
