# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""HTTP server of the operator: /metrics, /healthz and /readyz."""

from __future__ import annotations

import socket
from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from aiohttp import web
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from tf_malleable.api.transport.http_server import HttpServer, completing
from tf_malleable.cluster.reconcile.reconciler import JobDecision

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class StatusServer:
    """Metrics and health endpoints of the operator."""

    def __init__(
        self,
        registry: CollectorRegistry,
        is_alive: Callable[[], bool],
        is_ready: Callable[[], bool],
    ) -> None:
        """Create a server that does not listen yet.

        Args:
            registry: Registry of the metrics.
            is_alive: Returns whether the operator still decides.
            is_ready: Returns whether the operator knows the cluster.
        """
        self._registry, self._is_alive, self._is_ready = registry, is_alive, is_ready
        self._server: HttpServer | None = None

    async def start(self, host: str, port: int) -> int:
        """Start to listen and return the port.

        Raises:
            OSError: The address or the port cannot be used.
        """
        application = web.Application(middlewares=[completing])
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/healthz", self._health(self._is_alive))
        application.router.add_get("/readyz", self._health(self._is_ready))
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
        bound: int = listening.getsockname()[1]
        self._server = HttpServer(application)
        await self._server.start(listening)
        return bound

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            await self._server.close()

    async def _metrics(self, request: web.Request) -> web.Response:
        text = generate_latest(self._registry)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    def _health(self, is_good: Callable[[], bool]) -> _Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            return web.Response(text="ok\n") if is_good() else web.Response(text="no\n", status=503)

        return answer


_PHASES: Final = ("Pending", "Running", "Suspended", "Succeeded", "Failed", "Invalid")
_BUCKETS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)


class OperatorMetrics:
    """Metrics that /metrics exposes.

    Attributes:
        registry: Registry of all metrics.
        decisions: Durations of decisions, in seconds.
        calls: Number of actions carried out for jobs, by kind of action and result.
        leader: 1 while this operator acts, otherwise 0.
    """

    def __init__(self) -> None:
        self.registry = made = CollectorRegistry()
        self.decisions = Histogram(
            "tfm_operator_decision_seconds",
            "Time that one decision about all jobs takes.",
            registry=made,
            buckets=_BUCKETS,
        )
        self.calls = Counter(
            "tfm_operator_actions", "What was done about jobs.", ["action", "result"], registry=made
        )
        self.leader = Gauge("tfm_operator_leader", "1 while this operator acts.", registry=made)
        self._jobs = Gauge("tfm_jobs", "MalleableJobs by phase.", ["phase"], registry=made)
        self._workers = Gauge("tfm_workers", "Workers.", ["number"], registry=made)
        self._cpus = Gauge("tfm_worker_cpus", "CPUs of workers.", ["number"], registry=made)

    def show(self, jobs: Iterable[JobDecision]) -> None:
        """Set the gauges from the last decision."""
        phases: Tally[str] = Tally()
        granted = running = 0
        actual = wanted = 0.0
        for each in jobs:
            judgement = each.judgement
            phases["Invalid" if judgement is None else judgement.phase] += 1
            if judgement is None:
                continue
            granted += each.workers
            wanted += sum(pod.cpus for pod in judgement.workers)
            found = [pod for pod in judgement.workers if pod.is_running]
            running += len(found)
            actual += sum(pod.cpus if pod.actual is None else pod.actual for pod in found)
        for phase in _PHASES:
            self._jobs.labels(phase).set(phases[phase])
        self._workers.labels("granted").set(granted)
        self._workers.labels("actual").set(running)
        self._cpus.labels("granted").set(wanted)
        self._cpus.labels("actual").set(actual)
