# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Elastic trainings in virtual time: their workers are as the planner says."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.cluster_size.works import PAUSE_SECONDS, START_SECONDS, Outcome, Work
from tf_malleable.cluster.planning.capacity import NodeCapacity
from tf_malleable.cluster.planning.cluster_job import ClusterJob, ClusterRate, JobPlan
from tf_malleable.cluster.planning.planner import plan
from tf_malleable.policies.policy import Policy
from tf_malleable.simulate.engine.clock import LAST, Timer, VirtualClock


@dataclass
class Live:
    """A training that has come and not ended.

    Attributes:
        work: What it is.
        job: What the planner knows of it.
        left: Seconds that it would still take with one CPU.
        ready: When each of its pods computes, by name.
        computing: Pods that have computed.
        stopped: Until when a rescale stops it.
        speed: How many times as fast it is as with one CPU.
        at: When the numbers above were right.
        timer: Timer of what happens to it next.
    """

    work: Work
    job: ClusterJob
    left: float
    ready: dict[str, float] = field(default_factory=dict)
    computing: frozenset[str] = frozenset()
    stopped: float = 0.0
    speed: float = 0.0
    at: float = 0.0
    timer: Timer | None = None


class Simulation:
    """Runs trainings in a cluster.

    Args:
        some: The trainings, in order of arrival.
        nodes: Number of nodes.
        cpus: CPUs of each.
        policy: Shares them out.
        interval: Seconds between two decisions, at least.
        say: Is told how many trainings have ended, now and then.
    """

    def __init__(
        self,
        some: Sequence[Work],
        nodes: int,
        cpus: int,
        policy: Policy,
        interval: float,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._rooms = [NodeCapacity(f"{number:04}", cpus, 4e9 * cpus) for number in range(nodes)]
        self._policy, self._interval, self._say = policy, interval, say
        self._clock = VirtualClock()
        self._live: dict[str, Live] = {}
        self._outcome = Outcome({}, [(0.0, 0)], [])
        self._rescales = 0
        self._pods = 0
        self._planned = -interval
        self._next: tuple[float, Timer] | None = None
        for work in some:
            self._clock.at(work.arrival, lambda work=work: self._arrive(work))  # type: ignore[misc]

    def run(self) -> Outcome:
        """Return how they fared."""
        while self._clock.step():
            pass
        return replace(self._outcome, rescales=self._rescales)

    def _arrive(self, work: Work) -> None:
        now = self._clock.now
        job = ClusterJob(
            work.name,
            now,
            work.bounds,
            shards=work.shards,
            since=now,
            steps_total=work.seconds,
            rescale_seconds=PAUSE_SECONDS,
        )
        self._live[work.name] = Live(work, job, work.seconds, at=now)
        self._ask(now)

    def _ask(self, when: float) -> None:
        """Let a decision be made, not too soon after the last one."""
        when = max(when, self._planned + self._interval)
        if self._next is not None:
            if self._next[0] <= when:
                return
            self._next[1].cancel()
        self._next = (when, self._clock.at(when, self._plan, LAST))

    def _plan(self) -> None:
        now = self._planned = self._clock.now
        self._next = None
        for live in self._live.values():
            self._advance(live)
            _learn(live, now)
        jobs = [live.job for live in self._live.values()]
        begin = time.thread_time()
        planned = plan(jobs, self._rooms, now, self._policy)
        self._outcome.decisions.append(time.thread_time() - begin)
        for live in self._live.values():
            self._carry_out(live, planned.jobs[live.work.name])
        used = sum(live.job.cpus for live in self._live.values())
        self._outcome.used.append((now, used))
        if planned.review_at is not None:
            self._ask(planned.review_at)

    def _carry_out(self, live: Live, planned: JobPlan) -> None:
        now, job = self._clock.now, live.job
        workers = []
        for worker in planned.workers:
            if worker.pod is None:
                self._pods += 1
                worker = replace(worker, pod=f"{job.id}-{self._pods:06}")
                live.ready[str(worker.pod)] = now + START_SECONDS
            workers.append(worker)
        state = "running" if workers else job.state
        was = job.placed
        live.job = replace(
            job,
            placed=tuple(workers),
            sizing=planned.sizing,
            state=state,
            since=now if state != job.state else job.since,
            started=now if workers and job.started is None else job.started,
            resized=now if was and planned.cpus != job.cpus else job.resized,
        )
        if live.job.placed != was:
            self._go_on(live)

    def _advance(self, live: Live) -> None:
        """Let a training compute until now."""
        now = self._clock.now
        seconds = max(0.0, now - max(live.at, live.stopped))
        live.left -= seconds * live.speed
        if live.job.placed:
            live.job = replace(live.job, run_seconds=live.job.run_seconds + now - live.at)
        live.at = now

    def _go_on(self, live: Live) -> None:
        """Set a training's speed and what happens to it next."""
        self._advance(live)
        now = self._clock.now
        if live.left <= 1e-6:
            self._end(live)
            return
        placed = live.job.placed
        ready = [each for each in placed if live.ready[str(each.pod)] <= now + 1e-9]
        pods = frozenset(str(each.pod) for each in ready)
        if live.computing and pods and pods != live.computing:
            live.stopped = now + PAUSE_SECONDS
            self._rescales += 1
        live.computing = pods
        live.speed = live.work.speed(sum(each.cpus for each in ready), len(ready) or 1)
        times = [at for each in placed if (at := live.ready[str(each.pod)]) > now + 1e-9]
        if live.speed:
            times.append(max(now, live.stopped) + live.left / live.speed)
        if live.timer is not None:
            live.timer.cancel()
        if times:
            live.timer = self._clock.at(min(times), lambda: self._go_on(live))

    def _end(self, live: Live) -> None:
        if live.timer is not None:
            live.timer.cancel()
        del self._live[live.work.name]
        self._outcome.ends[live.work.name] = self._clock.now
        if len(self._outcome.ends) % 100 == 0:
            self._say(f"{len(self._outcome.ends)} have ended by {self._clock.now / 60:.1f} min")
        self._ask(self._clock.now)
        if not self._live:
            self._outcome.used.append((self._clock.now, 0))


def _learn(live: Live, now: float) -> None:
    """Tell the planner a training's steps and speed."""
    if not live.computing:
        return
    job = live.job
    done = live.work.seconds - live.left
    ready = [each for each in job.placed if each.pod in live.computing]
    live.job = replace(job, steps_done=done)
    if live.speed and now > live.stopped and len(ready) == len(job.placed):
        nodes = len({each.node for each in ready})
        size = (job.cpus, len(ready), nodes)
        if all((rate.cpus, rate.workers, rate.nodes) != size for rate in job.rates):
            rate = ClusterRate(*size, live.speed)
            live.job = replace(live.job, rates=(*job.rates, rate))
