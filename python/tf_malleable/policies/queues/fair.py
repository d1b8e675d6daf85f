# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Fair sharing: every running job has its share at all times."""

from __future__ import annotations

from tf_malleable.policies.queues.orders import Fcfs
from tf_malleable.policies.queues.queue_policy import QueueingPolicy
from tf_malleable.policies.shares.sharing_rules import Proportional


class EqualPolicy(QueueingPolicy):
    """Dynamic equipartition: all running jobs get the same, within min … max.

    As many jobs run as fit with min, first come, first served; none is paused. Tucker
    and Gupta, "Process control and scheduling issues for multiprogrammed
    shared-memory multiprocessors", SOSP 1989; McCann, Vaswani and Zahorjan, "A
    dynamic processor allocation policy", TOCS 11(2), 1993.

    Work-conserving: no core is idle while a running job is below max or the next
    in the queue would fit. Starves no job.
    """

    def __init__(self) -> None:
        super().__init__(Fcfs(), Proportional(lambda job: 1.0))


class WeightedPolicy(QueueingPolicy):
    """Shares proportional to the jobs' weights, within min … max.

    Otherwise like EqualPolicy: running jobs keep at least min, and none is paused.

    Work-conserving: no core is idle while a running job is below max or the next
    in the queue would fit. Starves no job.
    """

    def __init__(self) -> None:
        super().__init__(Fcfs(), Proportional(lambda job: job.weight))
