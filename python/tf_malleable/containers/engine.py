# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Client of the container engine, through Docker's SDK; all calls block.

The SDK also works with Podman. Errors are turned into one sentence.
"""

from __future__ import annotations

import os
import socket
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

from tf_malleable.api.schema.job_names import shortened_command
from tf_malleable.api.schema.messages import ContainerInfo
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.api.transport.connection import check_server
from tf_malleable.containers import labels
from tf_malleable.controller.ports import ContainerState, Found
from tf_malleable.linux.cgroups.cgroup_files import PERIOD_US

_TIMEOUT: Final = 10.0  # Seconds.

_USUAL_HOST: Final = "unix:///var/run/docker.sock"


class EventStream(Protocol):
    """A blocking stream of the engine's events."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Return the stream."""

    def close(self) -> None:
        """End the stream; called from another thread."""


class EngineGoneError(Exception):
    """No engine answers; the message has the address and the reason."""


class EngineRefusedError(Exception):
    """The engine refuses a request; the message is the engine's."""


class NoSuchContainerError(EngineRefusedError):
    """There is no such container."""


def host() -> str:
    """Return the engine's address: DOCKER_HOST, or the default."""
    return os.environ.get("DOCKER_HOST") or _USUAL_HOST


@dataclass(frozen=True)
class Update:
    """A change of a container's CPUs; None leaves a value unchanged.

    Attributes:
        cpuset: CPUs in the kernel's list format.
        quota_cpus: Quota of CPU time, in CPUs.
        in_nano: The quota was given as `--cpus`, which the engine stores separately.
    """

    cpuset: str | None = None
    quota_cpus: int | None = None
    in_nano: bool = False


@dataclass
class Engine:
    """One engine. Thread-safe: each thread has its own connections.

    Attributes:
        host: Address of the engine.
        timeout: Seconds after which an engine that does not answer counts as down; None
            waits forever.
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
            with self._translating_errors():
                self._knock()
                client = docker.DockerClient(
                    base_url=self.host, timeout=self.timeout, version="auto"
                )
            self._local.client = client
        return client

    def _knock(self) -> None:
        """Raise OSError if no process of root or this user listens at the engine's socket.

        The SDK leaves the socket of a failed connection open until garbage collection,
        and a controller tries twice a second.
        """
        scheme, _, path = self.host.partition("://")
        if scheme == "unix":
            with socket.socket(socket.AF_UNIX) as knocking:
                knocking.settimeout(self.timeout)
                knocking.connect(path)
                check_server(knocking)

    @contextmanager
    def calling(self) -> Iterator[docker.DockerClient]:
        """Yield the client, and translate its errors.

        Raises:
            EngineGoneError: No engine answers.
            EngineRefusedError: The engine refuses.
            NoSuchContainerError: There is no such container or image.
        """
        client = self.client
        with self._translating_errors():
            yield client

    @contextmanager
    def _translating_errors(self) -> Iterator[None]:
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
        """Return all attributes of a container."""
        with self.calling() as client:
            return dict(client.api.inspect_container(container))

    def list_ids(self) -> list[str]:
        """Return the ids of all containers, running or not, that are jobs of any controller."""
        with self.calling() as client:
            found = client.api.containers(all=True, filters={"label": labels.JOB})
            return [each["Id"] for each in found]

    def update(self, container: str, change: Update) -> None:
        """Change the CPUs of a container.

        Raises:
            NoSuchContainerError: There is no such container; also with Podman before 5, which
                lacks this request.
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
            # The SDK's update_container() does not support NanoCpus.
            _ask(client, container, "update", json=values)

    def start(self, container: str) -> None:
        """Start a created container."""
        with self.calling() as client:
            client.api.start(container)

    def pause(self, container: str) -> None:
        """Freeze a container."""
        with self.calling() as client:
            client.api.pause(container)

    def unpause(self, container: str) -> None:
        """Unfreeze a container."""
        with self.calling() as client:
            client.api.unpause(container)

    def kill(self, container: str, signal: str) -> None:
        """Send a signal to the first process of a container."""
        with self.calling() as client:
            client.api.kill(container, signal)

    def remove(self, container: str) -> None:
        """Remove a container that is not running."""
        with self.calling() as client:
            client.api.remove_container(container, v=True)

    def await_end(self, container: str) -> Callable[[], int | None]:
        """Start waiting for the next end of a container, without missing an early one.

        Returns:
            A function that waits for its exit code; it returns None if the engine goes down.
        """
        with self.calling() as client:
            # The SDK's wait() does not show when waiting has started; the header of the
            # engine's response does.
            answer = _ask(client, container, "wait", params={"condition": "next-exit"}, stream=True)

        def code() -> int | None:
            try:
                return int(answer.json()["StatusCode"])
            except (RequestException, ValueError, KeyError):
                return None

        return code

    def await_removal(self, container: str, seconds: float) -> None:
        """Return when a container has been removed.

        Raises:
            EngineGoneError: It still exists after `seconds`, or the engine is down.
            EngineRefusedError: The engine refuses.
        """
        waiting = {"params": {"condition": "removed"}, "timeout": seconds}
        with suppress(NoSuchContainerError), self.calling() as client:
            _ask(client, container, "wait", **waiting)

    def attach(self, container: str) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Return a container's output from now on, until it ends, as (stdout, stderr) pairs."""
        with Engine(self.host, timeout=None).calling() as client:
            output: Iterator[tuple[bytes | None, bytes | None]] = client.api.attach(
                container, stdout=True, stderr=True, stream=True, logs=False, demux=True
            )
        return output

    def events(self) -> EventStream:
        """Return the stream of container events from now on."""
        with self.calling() as client:
            # No filter by label: Podman 4 would report nothing.
            stream: EventStream = client.events(decode=True, filters={"type": "container"})
        return stream


def _ask(
    client: docker.DockerClient, container: str, what: str, **more: object
) -> requests.Response:
    """Send a request that the SDK does not support, or only incompletely.

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
    """Return a container as the controller sees it.

    Args:
        attributes: As returned by Engine.inspect().

    Raises:
        Refusal: 400; its labels are invalid.
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
            command=shortened_command(command),
        ),
        uid=said.user,
        state=status,
        pid=state["Pid"] if status == "running" else None,
        exit_code=state["ExitCode"] if status == "ended" else None,
        out_of_memory=status == "ended" and state.get("OOMKilled") is True,
    )


def _state(state: Mapping[str, Any]) -> ContainerState:
    if state["Running"] and state["Pid"]:
        return "running"
    # A container that could not be started stays "created", with an error.
    if was_never_started(state) and not state.get("Error"):
        return "created"
    return "ended"


def was_never_started(state: Mapping[str, Any]) -> bool:
    """Return whether a container was never started, or could not be; Podman's states differ.

    Args:
        state: The state in the attributes returned by Engine.inspect().
    """
    return state["Status"] in ("created", "configured", "initialized")


def refusal(container: str) -> Refusal:
    """Return the refusal of a container that does not belong to this controller."""
    return Refusal(
        403,
        f"the container {container} is not a job of this controller:"
        f" it has no label {labels.JOB}, or names another controller's socket",
    )


def _explanation(error: APIError) -> str:
    return " ".join(str(error.explanation or error).split())


def _innermost(error: BaseException) -> str:
    while error.__context__ is not None or error.__cause__ is not None:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return getattr(error, "strerror", None) or str(error)
