# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Operator: a loop that observes, decides about all jobs at once, and carries out the difference.

The objects of the API alone determine what is to be done. The operator may therefore be killed at
any moment, and another one continues. Actions for one job do not delay the others: a job with
actions under way is left out of the next rounds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from tf_malleable.cluster import resource_names
from tf_malleable.cluster.kube import objects
from tf_malleable.cluster.kube.client import ApiClient
from tf_malleable.cluster.kube.informer import Informer
from tf_malleable.cluster.observe.coordinator_poller import CoordinatorAt, CoordinatorPoller
from tf_malleable.cluster.reconcile.action_executor import ActionExecutor
from tf_malleable.cluster.reconcile.reconciler import (
    ClusterDecision,
    ClusterSnapshot,
    JobDecision,
    Reconciler,
)
from tf_malleable.cluster.settings import Timings
from tf_malleable.cluster.status_server import OperatorMetrics
from tf_malleable.policies.policy import Policy

_RETRY_SECONDS: Final = 0.3
_PROBLEM_SECONDS: Final = 5.0
# Changes arrive in groups; one decision is enough for a group.
_GATHER_SECONDS: Final = 0.02
_log = logging.getLogger(__name__)


class Operator:
    """Carries out all MalleableJobs of a cluster.

    Attributes:
        decided_at: Time of the last decision, in seconds of the monotonic clock. An operator that
            does not lead or does not know the cluster yet sets it, too.
    """

    def __init__(
        self,
        client: ApiClient,
        policy: Policy,
        key: bytes,
        timings: Timings,
        metrics: OperatorMetrics,
        *,
        only_in: str | None = None,
    ) -> None:
        """Create an operator; run() starts it.

        Args:
            client: Client of the API server.
            policy: Policy that shares out the CPUs.
            key: Key from which the jobs' tokens are derived.
            timings: Timeouts and intervals.
            metrics: Metrics to update.
            only_in: Only namespace whose jobs are carried out; None for all.
        """
        self.decided_at = time.monotonic()
        self._changed = asyncio.Event()
        self._key, self._metrics, self._only_in = key, metrics, only_in
        kinds = (
            resource_names.JOBS,
            resource_names.PODS,
            resource_names.NODES,
            resource_names.QUOTAS,
        )
        self._mirrors = {kind.plural: Informer(client, kind, self.wake) for kind in kinds}
        services = Informer(client, resource_names.SERVICES, self.wake, label=resource_names.JOB)
        self._mirrors[resource_names.SERVICES.plural] = services
        self._decider = Reconciler(policy, timings)
        self._follower = CoordinatorPoller(timings.poll, self.wake)
        jobs, pods = self._mirrors["malleablejobs"], self._mirrors["pods"]
        self._carrier = ActionExecutor(client, jobs, pods, key, timings, self._count)
        self._busy: dict[str, asyncio.Task[None]] = {}

    def wake(self) -> None:
        """Request a decision soon."""
        self._changed.set()

    @property
    def is_ready(self) -> bool:
        """Whether all informers have listed their objects."""
        return all(mirror.is_complete for mirror in self._mirrors.values())

    def _count(self, action: str, result: str) -> None:
        self._metrics.calls.labels(action, result).inc()

    async def run(self, may_act: Callable[[], bool]) -> None:
        """Carry out jobs while that is allowed, until cancelled.

        Args:
            may_act: Returns whether this operator is the leader.
        """
        work: list[Coroutine[Any, Any, None]] = [each.run() for each in self._mirrors.values()]
        work.append(self._decide_often(may_act))
        tasks = [asyncio.create_task(each) for each in work]
        try:
            # No task ends by itself unless it fails.
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            tasks += self._busy.values()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._follower.close()

    async def _decide_often(self, may_act: Callable[[], bool]) -> None:
        wait = _RETRY_SECONDS
        while True:
            await self._wait_for_changes(max(0.0, wait))
            leads = may_act()
            self._metrics.leader.set(leads)
            if not leads or not self.is_ready:
                self.decided_at = time.monotonic()
                wait = _RETRY_SECONDS
                continue
            try:
                with self._metrics.decisions.time():
                    decision = self._decider.decide(self._look())
            except Exception:  # From a third-party policy, for example. Trainings go on meanwhile.
                _log.exception("nothing can be decided")
                wait = _PROBLEM_SECONDS
                continue
            self.decided_at = time.monotonic()
            self._metrics.show(decision.jobs.values())
            self._follow(decision)
            for uid, each in decision.jobs.items():
                if each.actions and uid not in self._busy:
                    self._busy[uid] = asyncio.create_task(self._carry_out(uid, each, may_act))
            wait = decision.review_at - time.time()

    async def _wait_for_changes(self, seconds: float) -> None:
        # Before Python 3.12, wait_for() may lose a cancellation.
        changed = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait((changed,), timeout=seconds)
        finally:
            changed.cancel()
        if self._changed.is_set():
            await asyncio.sleep(_GATHER_SECONDS)
        self._changed.clear()

    def _look(self) -> ClusterSnapshot:
        found = {name: tuple(mirror.items.values()) for name, mirror in self._mirrors.items()}
        return ClusterSnapshot(
            found["malleablejobs"],
            found["pods"],
            found["nodes"],
            found["resourcequotas"],
            self._follower.progress(),
            time.time(),
            frozenset(self._mirrors["services"].items),
            self._only_in,
        )

    def _follow(self, decision: ClusterDecision) -> None:
        self._follower.follow(
            {
                uid: CoordinatorAt(
                    each.coordinator,
                    objects.token(self._key, each.job),
                    each.job.shards,
                    each.workers,
                    each.servers,
                )
                for uid, each in decision.jobs.items()
                if each.coordinator
            }
        )

    async def _carry_out(
        self, uid: str, decision: JobDecision, may_act: Callable[[], bool]
    ) -> None:
        try:
            memory = self._decider.memories[uid]
            if not await self._carrier.carry_out(decision, memory, may_act):
                await asyncio.sleep(_RETRY_SECONDS)
        except Exception:  # A failure with one job must not end the operator of all jobs.
            _log.exception("%s/%s: what was decided cannot be carried out", *decision.job.key)
            await asyncio.sleep(_RETRY_SECONDS)
        finally:
            del self._busy[uid]
            self.wake()
