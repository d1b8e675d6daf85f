# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The classic policies: every combination of a queue order and a way to share cores.

Only preemptive priority and round-robin pause jobs. Priority starves jobs behind a
steady stream of higher-priority ones, unless it ages. What else may starve depends on
the way to share, and is documented there.
"""

from __future__ import annotations

from tf_malleable.policies.orders import Order
from tf_malleable.policies.queueing import QueueingPolicy
from tf_malleable.policies.sharing import AlwaysAttend, Proportional, Strict


class StrictPolicy(QueueingPolicy):
    """Jobs run with exactly the cores they prefer, or wait; none is ever resized.

    A job that prefers more cores than the machine has runs with all of them. Nobody
    overtakes the first job in the queue.

    Work-conserving: no. Starves nobody beyond what its order does.
    """

    def __init__(self, order: Order) -> None:
        super().__init__(order, Strict())


class MaxPropPolicy(QueueingPolicy):
    """As many jobs as fit with min run, in order, and share all cores.

    Shares are proportional to `preferred`, within min … max. Nobody overtakes the first
    job in the queue, so a job with a large min gets its turn.

    Work-conserving: no core is idle while a running job is below max or the next
    in the queue would fit. Starves nobody beyond what its order does.
    """

    def __init__(self, order: Order) -> None:
        super().__init__(order, Proportional(lambda job: job.shape.preferred))


class AlwaysAttendPolicy(QueueingPolicy):
    """A job starts as soon as its min is free, with the free cores up to preferred.

    Running jobs are not shrunk. While nobody waits they grow into free cores, in order
    of start.

    Work-conserving: no core is idle while nobody waits and a running job is below
    max, or while some job's min would fit. Starves: smaller jobs may overtake jobs
    with a large min forever.
    """

    def __init__(self, order: Order) -> None:
        super().__init__(order, AlwaysAttend())
