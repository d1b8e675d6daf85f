# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Connection of commands to the cluster that their options name; errors are one sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from tf_malleable.cluster import resource_names
from tf_malleable.cluster.kube import kubeconfig
from tf_malleable.cluster.kube.client import ApiClient, CallError
from tf_malleable.cluster.resource_names import ResourceKind
from tf_malleable.model import OperationError

_Command = TypeVar("_Command", bound=Callable[..., object])
_Result = TypeVar("_Result")
_WAIT_SECONDS = 10.0

Object = dict[str, Any]


class UnreachableError(OperationError):
    """The API server does not answer."""


@dataclass(frozen=True)
class Cluster:
    """A cluster, as a user with a kubeconfig sees it.

    Attributes:
        kubeconfig: Path of the kubeconfig; None for the default ones.
        context: Context of the kubeconfig; None for its current one.
        namespace: Namespace of the jobs; None for the context's own.
    """

    kubeconfig: Path | None
    context: str | None
    namespace: str | None

    def own_namespace(self) -> str:
        """Return the namespace of the jobs."""
        return self.namespace or kubeconfig.namespace(self.kubeconfig, self.context)

    def jobs(self, *, everywhere: bool = False) -> list[Object]:
        """Return the MalleableJobs of the namespace, or of all namespaces."""
        namespace = "" if everywhere else self.own_namespace()
        return self._list(resource_names.JOBS, namespace)

    def job(self, name: str) -> Object:
        """Return a MalleableJob.

        Raises:
            OperationError: There is no job of this name.
        """
        namespace = self.own_namespace()
        for item in self._list(resource_names.JOBS, namespace):
            if item["metadata"]["name"] == name:
                return item
        raise OperationError(f"there is no MalleableJob {name!r} in namespace {namespace}")

    def nodes(self) -> list[Object]:
        """Return the nodes; none if the user may not list them."""
        try:
            return self._list(resource_names.NODES, "")
        except UnreachableError:
            raise
        except OperationError:
            return []

    def apply(self, kind: ResourceKind, item: Mapping[str, Any], *, force: bool) -> None:
        """Apply an object server-side.

        Args:
            kind: Kind of the object.
            item: Object with the fields to set.
            force: True to take over fields that other managers own.

        Raises:
            OperationError: The server refuses the object, or other managers own these fields.
        """
        about = f"{kind.kind} {item['metadata']['name']}"

        async def apply(client: ApiClient) -> None:
            await client.apply(kind, item, manager="tfm", force=force)

        try:
            self._ask(apply)
        except _RefusedError as refusal:
            advice = ""
            if refusal.error.is_conflict:
                advice = "; --force-conflicts takes these fields over"
            raise OperationError(f"{about}: {refusal}{advice}") from None

    def _list(self, kind: ResourceKind, namespace: str) -> list[Object]:
        async def ask(client: ApiClient) -> list[Object]:
            return (await client.list(kind, namespace))[0]

        try:
            return self._ask(ask)
        except _RefusedError as refusal:
            if refusal.error.is_gone and kind is resource_names.JOBS:
                raise OperationError(
                    "this cluster does not know MalleableJobs: tfm cluster install"
                ) from None
            raise

    def _ask(self, question: Callable[[ApiClient], Awaitable[_Result]]) -> _Result:
        server = kubeconfig.find(self.kubeconfig, self.context)

        async def ask() -> _Result:
            client = ApiClient(server, call_seconds=_WAIT_SECONDS)
            try:
                return await question(client)
            except CallError as error:
                if error.code == 0:
                    raise UnreachableError(
                        f"the API server at {server.url} does not answer"
                    ) from None
                if error.code == 401:
                    raise OperationError(
                        f"the API server at {server.url} does not know who asks: its kubeconfig"
                        " has no valid credentials"
                    ) from None
                raise _RefusedError(error) from None
            finally:
                await client.close()

        return asyncio.run(ask())


class _RefusedError(OperationError):
    """The API server has refused a call."""

    def __init__(self, error: CallError) -> None:
        self.error = error
        super().__init__(str(error))


def cluster_options(command: _Command) -> _Command:
    """Add --kubeconfig and --context to a command, which gets them as the argument `cluster`."""
    return _options(command, namespaced=False)


def namespace_options(command: _Command) -> _Command:
    """Add --kubeconfig, --context and --namespace to a command; see cluster_options()."""
    return _options(command, namespaced=True)


def _options(command: _Command, *, namespaced: bool) -> _Command:
    @wraps(command)
    def with_cluster(
        *arguments: object,
        kubeconfig: Path | None,
        context: str | None,
        **more: object,
    ) -> object:
        namespace = more.pop("namespace") if namespaced else None
        cluster = Cluster(kubeconfig, context, None if namespace is None else str(namespace))
        return command(*arguments, cluster=cluster, **more)

    made: Callable[..., object] = with_cluster
    if namespaced:
        made = click.option(
            "--namespace", "-n", metavar="NAME", help="Namespace.  [default: the context's]"
        )(made)
    made = click.option(
        "--context", metavar="NAME", help="Context of the kubeconfig.  [default: its current one]"
    )(made)
    made = click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Kubeconfig file.  [default: $KUBECONFIG, or the standard path]",
    )(made)
    return made  # type: ignore[return-value]
