# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Clusters for the planner: drawn at random, changed by plans and by misfortune."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

from tf_malleable.cluster.planning.capacity import NamespaceQuota, NodeCapacity
from tf_malleable.cluster.planning.cluster_job import (
    ClusterJob,
    ClusterPlan,
    ClusterRate,
    JobPlan,
    ServerBounds,
    WorkerBounds,
)
from tf_malleable.cluster.planning.planner import plan
from tf_malleable.policies.policy import Policy

GIB = 2.0**30
# Reasons for which a training keeps its last workers, whatever it is entitled to.
STUCK = ("Draining", "WaitingForCpus")
_pods = itertools.count()


def carried_out(job: ClusterJob, planned: JobPlan, now: float) -> ClusterJob:
    """Return a training once its members are as planned."""
    workers = tuple(
        replace(each, pod=each.pod or f"{job.id}-{next(_pods)}") for each in planned.workers
    )
    servers = tuple(
        replace(each, pod=each.pod or f"{job.id}-s{next(_pods)}") for each in planned.servers
    )
    present = sum(worker.cpus for worker in job.placed)
    state = "running" if workers else "waiting" if job.started is None else "paused"
    return replace(
        job,
        placed=workers,
        placed_servers=servers,
        sizing=planned.sizing,
        state=state,
        since=job.since if state == job.state else now,
        started=now if workers and job.started is None else job.started,
        resized=job.resized if planned.cpus == present or not job.placed else now,
    )


@dataclass
class Cluster:
    """Nodes and trainings.

    Attributes:
        rooms: By name.
        jobs: By id.
        quotas: By namespace.
        now: The time.
    """

    rooms: dict[str, NodeCapacity] = field(default_factory=dict)
    jobs: dict[str, ClusterJob] = field(default_factory=dict)
    quotas: dict[str, NamespaceQuota] = field(default_factory=dict)
    now: float = 1000.0

    def plan(self, policy: Policy) -> ClusterPlan:
        """Return a plan."""
        jobs, rooms = list(self.jobs.values()), list(self.rooms.values())
        return plan(jobs, rooms, self.now, policy, quotas=self.quotas)

    def carry_out(self, planned: ClusterPlan) -> None:
        """Do what is planned."""
        for name, job in self.jobs.items():
            self.jobs[name] = carried_out(job, planned.jobs[name], self.now)

    def step(self, policy: Policy) -> ClusterPlan:
        """Plan, check the plan and do what it says."""
        planned = self.plan(policy)
        check(self, planned)
        self.carry_out(planned)
        return planned


def check(cluster: Cluster, planned: ClusterPlan) -> None:
    """Assert what holds for every plan."""
    assert planned.jobs.keys() == cluster.jobs.keys()
    assert planned.review_at is None or planned.review_at >= cluster.now
    cpus: Counter[str] = Counter()
    owned: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    pods: Counter[str] = Counter()
    for name, job in cluster.jobs.items():
        mine = planned.jobs[name]
        assert mine.why
        _check_members(cluster, job, mine)
        if not mine.workers or mine.reason not in STUCK:
            owned[job.namespace] += mine.cpus + len(mine.servers) * job.servers.cpus
        for worker in mine.workers:
            cpus[worker.node] += worker.cpus
            memory[worker.node] += job.workers.memory
            pods[worker.node] += 1
        for server in mine.servers:
            cpus[server.node] += job.servers.cpus
            memory[server.node] += job.servers.memory
            pods[server.node] += 1
    for name, quota in cluster.quotas.items():
        assert owned[name] <= quota.cpus + 1e-6
    for node in pods:
        room = cluster.rooms[node]
        assert room.ready
        assert cpus[node] <= room.cpus + 1e-6
        assert room.memory is None or memory[node] <= room.memory
        assert pods[node] <= room.pods


def _check_members(cluster: Cluster, job: ClusterJob, mine: JobPlan) -> None:
    bounds, had = job.workers, {each.pod: each for each in job.placed}
    kept = [each.pod for each in mine.workers if each.pod is not None]
    assert len(kept) == len(set(kept))
    assert set(kept) <= had.keys()
    assert {each.pod for each in mine.servers} - {None} <= {e.pod for e in job.placed_servers}
    assert len(mine.workers) <= bounds.most
    assert len(mine.servers) <= job.servers.most
    if len(mine.workers) < bounds.least:
        # Survivors that keep the state.
        assert len(kept) == len(mine.workers)
        assert not kept or not job.keeps_state
    if not mine.workers:
        assert not mine.servers
    assert not (job.suspended and mine.workers)
    for worker in mine.workers:
        assert bounds.cpus_least <= worker.cpus <= bounds.cpus_most
        if worker.pod is not None:
            assert worker.node == had[worker.pod].node
            limit = worker.cpus_limit
            assert limit is None or worker.cpus <= max(limit, bounds.cpus_least)
    for member in (*mine.workers, *mine.servers):
        if member.pod is None:
            assert cluster.rooms[member.node].is_open
            assert job.allowed is None or member.node in job.allowed
            assert member.node not in job.avoided
    if job.admitted_cpus is not None and mine.reason not in STUCK:
        servers = len(mine.servers) * job.servers.cpus
        assert mine.cpus + servers <= job.admitted_cpus + 1e-6


def drawn(random: Random, *, nodes: int = 4, jobs: int = 5) -> Cluster:
    """Return a cluster."""
    cluster = Cluster()
    for number in range(random.randint(1, nodes)):
        add_room(cluster, random, f"node-{number}")
    for _ in range(random.randint(0, jobs)):
        add_job(cluster, random)
    if random.random() < 0.3:
        cluster.quotas["default"] = NamespaceQuota(
            random.choice([4.0, 7.5, 20.0]), random.choice([8, 64]) * GIB, random.randint(2, 12)
        )
    return cluster


def add_room(cluster: Cluster, random: Random, name: str) -> None:
    """Add or replace a node."""
    cluster.rooms[name] = NodeCapacity(
        name,
        random.choice([-0.5, 0.9, 1.0, 2.0, 3.7, 4.0, 8.0, 8.0, 15.9]),
        random.choice([None, 4 * GIB, 16 * GIB, 64 * GIB]),
        random.choice([2, 110, 110]),
        ready=random.random() < 0.9,
        leaving=random.random() < 0.15,
    )


def add_job(cluster: Cluster, random: Random) -> None:
    """Add a training."""
    number = next(_pods)
    least, most = sorted((random.choice([1, 1, 1, 2, 3]), random.randint(1, 5)))
    cpus_least, cpus_most = sorted((random.choice([1, 1, 2, 4]), random.randint(1, 9)))
    few, many = sorted((random.choice([0, 0, 1]), random.choice([0, 0, 1, 2])))
    names = sorted(cluster.rooms)
    some = frozenset(random.sample(names, random.randint(0, len(names))))
    total = random.choice([None, 1000.0])
    submitted = cluster.now - random.choice([0.0, 5.0, 700.0])
    job = ClusterJob(
        f"job-{number}",
        submitted,
        WorkerBounds(least, most, cpus_least, cpus_most, random.choice([0.0, GIB, 3 * GIB])),
        ServerBounds(few, many, random.choice([0.1, 0.5, 1.0])),
        shards=max(least, random.choice([1, 2, 4, 8, 12])),
        shard_cpus=random.choice([0, 1, 1, 2]),
        namespace=random.choice(["default", "default", "other"]),
        priority=random.choice([0, 0, 0, 2, -1]),
        weight=random.choice([0.5, 1.0, 3.0]),
        suspended=random.random() < 0.1,
        keeps_state=random.random() < 0.3,
        allowed=None if random.random() < 0.7 else some,
        avoided=frozenset() if random.random() < 0.9 else some,
        admitted_cpus=random.choice([None, None, None, 3.0, 8.0]),
        since=submitted,
        steps_done=None if total is None else random.uniform(0.0, total),
        steps_total=total,
        rates=_rates(random),
        expected_seconds=random.choice([None, 50.0, 1000.0]),
    )
    cluster.jobs[job.id] = job


def _rates(random: Random) -> tuple[ClusterRate, ...]:
    sizes = {(random.randint(1, 12), random.randint(1, 3)) for _ in range(random.randint(0, 4))}
    return tuple(
        ClusterRate(cpus, workers, 1, random.uniform(1.0, 20.0))
        for cpus, workers in sorted(sizes)
        if cpus >= workers
    )


def befall(cluster: Cluster, random: Random) -> None:
    """Let something happen."""
    cluster.now += random.choice([0.0, 0.5, 4.0, 60.0])
    what = random.choice(["arrival", "end", "node", "death", "suspend", "limit", "nothing"])
    names = sorted(cluster.jobs)
    if what == "arrival":
        add_job(cluster, random)
    elif what == "node":
        name = f"node-{random.randint(0, 4)}"
        if random.random() < 0.2 and len(cluster.rooms) > 1:
            cluster.rooms.pop(name, None)
        else:
            add_room(cluster, random, name)
    elif names:
        name = random.choice(names)
        job = cluster.jobs[name]
        if what == "end":
            del cluster.jobs[name]
        elif what == "suspend":
            cluster.jobs[name] = replace(job, suspended=not job.suspended)
        elif what == "death" and job.placed:
            cluster.jobs[name] = replace(job, placed=job.placed[1:])
        elif what == "limit" and job.placed:
            first = replace(job.placed[0], cpus_limit=random.randint(1, 4))
            cluster.jobs[name] = replace(job, placed=(first, *job.placed[1:]))
