# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Entry point of the operator: tfm cluster operator."""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
import signal
import socket
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from tf_malleable.cluster import resource_names
from tf_malleable.cluster.kube import kubeconfig
from tf_malleable.cluster.kube.client import ApiClient, CallError
from tf_malleable.cluster.kube.leader_election import LeaderElection
from tf_malleable.cluster.operator import Operator
from tf_malleable.cluster.outage_log import OutageLog
from tf_malleable.cluster.settings import OperatorSettings
from tf_malleable.cluster.status_server import OperatorMetrics, StatusServer
from tf_malleable.model import OperationError
from tf_malleable.policies import registry

_KEY: Final = "key"
_RETRY_SECONDS: Final = 1.0
# An operator without a decision for this long hangs: /healthz fails, and the kubelet restarts it.
_DEAD_SECONDS: Final = 120.0
_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")


def run(settings: OperatorSettings) -> int:
    """Run the operator until SIGTERM or SIGINT; return the exit code.

    Raises:
        OperationError: No cluster is configured, the cluster refuses this operator, or the port is
            taken.
        ValueError: There is no such policy.
    """
    return asyncio.run(_run(settings))


async def _run(settings: OperatorSettings) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return await operate(settings, stop)


async def operate(
    settings: OperatorSettings,
    stop: asyncio.Event,
    listens: Callable[[int], None] = lambda port: None,
) -> int:
    """Run the operator until `stop` is set; see run().

    Args:
        settings: Settings of the operator.
        stop: Event that ends the run.
        listens: Called with the port that serves /metrics.
    """
    policy = registry.create(settings.policy)
    server = kubeconfig.find(settings.kubeconfig, settings.context)
    client = ApiClient(server, call_seconds=settings.timings.call)
    namespace = settings.namespace or kubeconfig.own_namespace()
    identity = settings.identity or f"{socket.gethostname()}-{secrets.token_hex(4)}"
    metrics = OperatorMetrics()
    operator: Operator | None = None

    def is_alive() -> bool:
        return operator is None or time.monotonic() - operator.decided_at < _DEAD_SECONDS

    def is_ready() -> bool:
        return operator is not None and operator.is_ready

    page = StatusServer(metrics.registry, is_alive, is_ready)
    try:
        port = await page.start(settings.host, settings.port)
        listens(port)
        _log.info("%s: /metrics and /healthz at port %d", identity, port)
        key = await _until_stopped(_own_key(client, namespace, settings.name), stop)
        if key is None:
            return 0
        only_in = settings.only_in
        operator = Operator(client, policy, key, settings.timings, metrics, only_in=only_in)
        leadership = LeaderElection(
            client, namespace, settings.name, identity, settings.lease_seconds, operator.wake
        )
        acting = operator.run(lambda: leadership.is_leader)
        await _until_stopped(_together(acting, leadership.run()), stop)
    except OSError as error:
        raise OperationError(
            f"cannot listen at {settings.host}:{settings.port}: {error.strerror or error}"
        ) from None
    finally:
        await page.close()
        await client.close()
    return 0


async def _together(*work: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.create_task(each) for each in work]
    try:
        # No task ends by itself unless it fails. gather() is unsuitable: it would go on when the
        # first task is cancelled, and then interrupt the clean-up of another one.
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until_stopped(work: Coroutine[Any, Any, _Result], stop: asyncio.Event) -> _Result | None:
    """Return the result of `work`; None if `stop` is set first."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


async def _own_key(client: ApiClient, namespace: str, name: str) -> bytes:
    """Return the key from which all tokens are derived; the first operator creates it.

    Raises:
        OperationError: The cluster refuses to read or to create the Secret with the key.
    """
    name = f"{name}-key"
    outage = OutageLog(_log)
    while True:
        try:
            with suppress(KeyError, ValueError):
                found = await client.get(resource_names.SECRETS, namespace, name)
                outage.end()
                return base64.b64decode(found["data"][_KEY], validate=True)
            raise OperationError(f"the Secret {name} in {namespace} has no {_KEY}: delete it")
        except CallError as error:
            if error.is_gone:
                await _make_key(client, namespace, name, outage)
                continue
            if error.code in (401, 403):
                raise OperationError(f"the cluster refuses this operator: {error}") from None
            outage.begin(error)
        await asyncio.sleep(_RETRY_SECONDS)


async def _make_key(client: ApiClient, namespace: str, name: str, outage: OutageLog) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "Opaque",
        "immutable": True,
        "data": {_KEY: base64.b64encode(secrets.token_bytes(32)).decode()},
    }
    try:
        await client.create(resource_names.SECRETS, namespace, secret)
    except CallError as error:
        if error.code in (401, 403):
            raise OperationError(f"the cluster refuses this operator: {error}") from None
        if error.reason != "AlreadyExists":
            outage.begin(error)
            await asyncio.sleep(_RETRY_SECONDS)
