# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A plan that is easy to foresee: first come, first served, one CPU more for who is there."""

from __future__ import annotations

from tf_malleable.cluster.planning.cluster_job import ServerAt, WorkerAt
from tf_malleable.cluster.planning.cluster_plan import ClusterPlan, JobPlan


def plan(jobs, rooms, now, policy, *, quotas=(), patience=None):
    """Return as many workers as there may be, each where there is most room."""
    free = {room.node: int(room.cpus) for room in rooms if room.ready}
    leaving = {room.node for room in rooms if room.leaving}
    made = {}
    for job in jobs:
        least = job.workers.cpus_least
        found = []
        if not job.suspended:
            kept = [w for w in job.placed if w.node in free and w.node not in leaving]
            for worker in kept:
                if free[worker.node] >= least and len(found) < job.workers.most:
                    found.append(WorkerAt(worker.node, least, worker.pod))
                    free[worker.node] -= least
            where = [n for n in free if n not in leaving and n not in job.avoided]
            where = [n for n in where if job.allowed is None or n in job.allowed]
            while len(found) < job.workers.most and where:
                node = max(where, key=lambda name: (free[name], name))
                if free[node] < least:
                    break
                found.append(WorkerAt(node, least))
                free[node] -= least
            for number, worker in enumerate(found):
                limit = worker.cpus_limit or job.workers.cpus_most
                more = min(free[worker.node], limit - worker.cpus)
                found[number] = WorkerAt(worker.node, worker.cpus + more, worker.pod)
                free[worker.node] -= more
            if not found:
                found = [w for w in job.placed if w.node in free]
        servers = []
        if found:
            servers = [s for s in job.placed_servers if s.node in free][: job.servers.least]
            servers += [ServerAt(found[0].node)] * (job.servers.least - len(servers))
        made[job.id] = JobPlan(tuple(found), tuple(servers), "Granted", "trivial")
    return ClusterPlan(made)
