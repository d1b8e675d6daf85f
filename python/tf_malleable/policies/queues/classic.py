# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The classic policies: every combination of a queue order and a way to share cores.

Only preemptive priority and round-robin pause jobs. Priority starves jobs behind a
steady stream of higher-priority ones, unless it ages. Further starvation depends on
the way to share, and is documented there.
"""

from __future__ import annotations

from tf_malleable.policies.queues.orders import Order
from tf_malleable.policies.queues.queue_policy import QueueingPolicy
from tf_malleable.policies.shares.sharing_rules import AlwaysAttend, Proportional, Strict


class StrictPolicy(QueueingPolicy):
    """Runs jobs with exactly the cores they prefer, or lets them wait; resizes none.

    A job that prefers more cores than the machine has runs with all of them. No job
    overtakes the first one in the queue.

    Work-conserving: no. Starves no job beyond what its order does.
    """

    def __init__(self, order: Order) -> None:
        super().__init__(order, Strict())


class MaxPropPolicy(QueueingPolicy):
    """Runs as many jobs as fit with min, in order, and shares all cores among them.

    Shares are proportional to `preferred`, within min … max. No job overtakes the first
    one in the queue, so a job with a large min gets its turn.

    Work-conserving: no core is idle while a running job is below max or the next
    in the queue would fit. Starves no job beyond what its order does.
    """

    def __init__(self, order: Order) -> None:
        super().__init__(order, Proportional(lambda job: job.shape.preferred))


class AlwaysAttendPolicy(QueueingPolicy):
    """Starts a job as soon as its min is free, with the free cores up to preferred.

    Running jobs are not shrunk. While no job waits they grow into free cores, in order
    of start.

    Work-conserving: no core is idle while no job waits and a running job is below
    max, or while some job's min would fit. Starves: smaller jobs may overtake jobs
    with a large min forever.
    """

    def __init__(self, order: Order) -> None:
        super().__init__(order, AlwaysAttend())
