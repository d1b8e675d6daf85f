# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The classic grid: each order of a queue with each way to hand out cores.

No order pauses a job but preemptive priority and round-robin. Priority starves
whoever is less important than a steady stream of others, unless it ages. What else
may starve depends on the way to share, and is said there.
"""

from __future__ import annotations

from tf_malleable.policies.orders import Order
from tf_malleable.policies.queueing import QueueingPolicy
from tf_malleable.policies.sharing import AlwaysAttend, Proportional, Strict


class StrictPolicy(QueueingPolicy):
    """Jobs run with exactly the cores they prefer, or wait; none is ever resized.

    A job that prefers more than the machine has is content with all of it. The
    first in the queue keeps the others from passing.

    Work-conserving: no. Starves nobody beyond what its order does.
    """

    def __init__(self, order: Order) -> None:
        super().__init__(order, Strict())


class MaxPropPolicy(QueueingPolicy):
    """As many jobs as fit with min, in order; they share all cores as they prefer.

    Shares are in proportion to `preferred`, within min … max. The first in the queue
    keeps the others from passing, so that a job with a large min gets its turn.

    Work-conserving: no core is idle while a running job is below max or the next
    in the queue would fit. Starves nobody beyond what its order does.
    """

    def __init__(self, order: Order) -> None:
        super().__init__(order, Proportional(lambda job: job.shape.preferred))


class AlwaysAttendPolicy(QueueingPolicy):
    """A job starts as soon as its min is free, with what there is up to preferred.

    Running jobs are not shrunk. They grow, in order of start, into cores that are
    free while nobody waits.

    Work-conserving: no core is idle while nobody waits and a running job is below
    max, or while some job's min would fit. Starves: jobs with a large min may be
    passed by smaller ones for ever.
    """

    def __init__(self, order: Order) -> None:
        super().__init__(order, AlwaysAttend())
