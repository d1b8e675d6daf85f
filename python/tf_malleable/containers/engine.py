# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The engine, through its SDK: every call waits for the answer.

Docker's SDK speaks to Podman as well. Whatever goes wrong comes out as one sentence.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import docker
import requests
from docker.errors import (
    APIError,
    DockerException,
    NotFound,
    create_api_error_from_http_exception,
)
from requests.exceptions import RequestException

from tf_malleable.api.messages import ContainerInfo
from tf_malleable.api.refusal import Refusal
from tf_malleable.containers import labels
from tf_malleable.controller.ports import ContainerState, Found
from tf_malleable.linux.cgroup_files import PERIOD_US

_TIMEOUT: Final = 10.0  # Seconds.

_USUAL_HOST: Final = "unix:///var/run/docker.sock"
_LONGEST_ARGUMENT: Final = 4096
_MOST_ARGUMENTS: Final = 256


class EventStream(Protocol):
    """Events, as the engine sends them. It waits for the next one."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Return the stream."""

    def close(self) -> None:
        """End the stream, from another thread."""


class EngineGoneError(Exception):
    """No engine answers; the message says where and why."""


class EngineRefusedError(Exception):
    """The engine refuses; the message is its own."""


class NoSuchContainerError(EngineRefusedError):
    """There is no such container."""


def host() -> str:
    """Return where the engine listens: what DOCKER_HOST says, or the usual place."""
    return os.environ.get("DOCKER_HOST") or _USUAL_HOST


@dataclass(frozen=True)
class Update:
    """What is to change of a container's CPUs; None leaves it.

    Attributes:
        cpuset: As the kernel writes it.
        quota_cpus: So much CPU time.
        in_nano: Its quota was given as `--cpus`, which the engine keeps apart.
    """

    cpuset: str | None = None
    quota_cpus: int | None = None
    in_nano: bool = False


@dataclass
class Engine:
    """One engine. Thread-safe: each thread has connections of its own.

    Attributes:
        host: Where it listens.
        timeout: An engine that has not answered by then is as good as gone, in
            seconds; None waits for ever.
    """

    host: str = field(default_factory=host)
    timeout: float | None = _TIMEOUT
    _local: threading.local = field(default_factory=threading.local, repr=False)

    @property
    def client(self) -> docker.DockerClient:
        """The SDK's client of this thread.

        Raises:
            EngineGoneError: No engine answers.
        """
        client = getattr(self._local, "client", None)
        if client is None:
            with self._answering():
                client = docker.DockerClient(
                    base_url=self.host, timeout=self.timeout, version="auto"
                )
            self._local.client = client
        return client

    @contextmanager
    def calling(self) -> Iterator[docker.DockerClient]:
        """Yield the client, and turn what goes wrong into sentences.

        Raises:
            EngineGoneError, EngineRefusedError, NoSuchContainerError: As they say.
        """
        client = self.client
        with self._answering():
            yield client

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except NotFound as error:
            raise NoSuchContainerError(_explanation(error)) from None
        except APIError as error:
            raise EngineRefusedError(_explanation(error)) from None
        except (DockerException, RequestException, OSError) as error:
            raise EngineGoneError(
                f"no container engine answers at {self.host}: {_innermost(error)}"
            ) from None

    def inspect(self, container: str) -> dict[str, Any]:
        """Return all that the engine says of a container."""
        with self.calling() as client:
            return dict(client.api.inspect_container(container))

    def list_ids(self) -> list[str]:
        """Return the ids of all containers, running or not, that are jobs of some controller."""
        with self.calling() as client:
            found = client.api.containers(all=True, filters={"label": labels.JOB})
            return [each["Id"] for each in found]

    def update(self, container: str, change: Update) -> None:
        """Change the CPUs of a container.

        Podman before 5 has no such request, and says that it finds nothing.
        """
        values: dict[str, Any] = {}
        if change.cpuset is not None:
            values["CpusetCpus"] = change.cpuset
        if change.quota_cpus is not None and change.in_nano:
            values["NanoCpus"] = change.quota_cpus * 10**9
        elif change.quota_cpus is not None:
            values["CpuQuota"] = change.quota_cpus * PERIOD_US
            values["CpuPeriod"] = PERIOD_US
        with self.calling() as client:
            # The SDK's own update_container() does not know NanoCpus.
            _ask(client, container, "update", json=values)

    def start(self, container: str) -> None:
        """Start a container that was created."""
        with self.calling() as client:
            client.api.start(container)

    def pause(self, container: str) -> None:
        """Freeze a container."""
        with self.calling() as client:
            client.api.pause(container)

    def unpause(self, container: str) -> None:
        """Let a frozen container go on."""
        with self.calling() as client:
            client.api.unpause(container)

    def kill(self, container: str, signal: str) -> None:
        """Send a signal to the first process of a container."""
        with self.calling() as client:
            client.api.kill(container, signal)

    def remove(self, container: str) -> None:
        """Remove a container that does not run."""
        with self.calling() as client:
            client.api.remove_container(container, v=True)

    def await_end(self, container: str) -> Callable[[], int | None]:
        """Begin to wait for the next end of a container, even one that comes at once.

        Returns:
            What waits for its exit code; None if the engine went first.
        """
        with self.calling() as client:
            # The SDK's own wait() does not say when it has begun. The engine does: with
            # the header of its answer.
            answer = _ask(client, container, "wait", params={"condition": "next-exit"}, stream=True)

        def code() -> int | None:
            try:
                return int(answer.json()["StatusCode"])
            except (RequestException, ValueError, KeyError):
                return None

        return code

    def await_removal(self, container: str, seconds: float) -> None:
        """Return when a container is no longer there.

        Raises:
            EngineGoneError: It is there after so many seconds, or nobody knows.
            EngineRefusedError: The engine does not tell.
        """
        waiting = {"params": {"condition": "removed"}, "timeout": seconds}
        with suppress(NoSuchContainerError), self.calling() as client:
            _ask(client, container, "wait", **waiting)

    def attach(self, container: str) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Return what a container prints from now on, until it ends: stdout or stderr each."""
        with Engine(self.host, timeout=None).calling() as client:
            output: Iterator[tuple[bytes | None, bytes | None]] = client.api.attach(
                container, stdout=True, stderr=True, stream=True, logs=False, demux=True
            )
        return output

    def events(self) -> EventStream:
        """Return the events of containers from now on."""
        with self.calling() as client:
            # Not by label: Podman 4 then tells of none.
            stream: EventStream = client.events(decode=True, filters={"type": "container"})
        return stream


def _ask(
    client: docker.DockerClient, container: str, what: str, **more: object
) -> requests.Response:
    """Ask the engine for what its SDK has no function, or one that lacks something.

    Raises:
        APIError: The engine refuses.
    """
    api = client.api
    answer: requests.Response = api.post(
        f"{api.base_url}/v{api.api_version}/containers/{container}/{what}",
        **{"timeout": None if "stream" in more else api.timeout, **more},
    )
    try:
        answer.raise_for_status()
    except requests.HTTPError as error:
        create_api_error_from_http_exception(error)
    return answer


def found(attributes: Mapping[str, Any]) -> Found:
    """Return a container as the controller knows it.

    Args:
        attributes: As Engine.inspect() returns them.

    Raises:
        Refusal: 400; its labels cannot be.
    """
    config, state = attributes["Config"], attributes["State"]
    name = attributes["Name"].lstrip("/")
    said = labels.read(config.get("Labels") or {}, name)
    command = [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]
    status = _state(state)
    return Found(
        info=ContainerInfo(attributes["Id"], name, config.get("Image") or "", said.resize),
        request=replace(
            said.request,
            command=tuple(argument[:_LONGEST_ARGUMENT] for argument in command[:_MOST_ARGUMENTS]),
        ),
        uid=said.user,
        state=status,
        pid=state["Pid"] if status == "running" else None,
        exit_code=state["ExitCode"] if status == "ended" else None,
    )


def _state(state: Mapping[str, Any]) -> ContainerState:
    if state["Running"] and state["Pid"]:
        return "running"
    # One that could not be started stays created; its engine has noted why.
    if state["Status"] in ("created", "configured", "initialized") and not state.get("Error"):
        return "created"
    return "ended"


def refusal(container: str) -> Refusal:
    """Return what is said of a container that is none of ours."""
    return Refusal(
        403,
        f"the container {container} is none of this controller's jobs:"
        f" it has no label {labels.JOB}, or another controller's",
    )


def _explanation(error: APIError) -> str:
    return " ".join(str(error.explanation or error).split())


def _innermost(error: BaseException) -> str:
    while error.__context__ is not None or error.__cause__ is not None:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return getattr(error, "strerror", None) or str(error)
