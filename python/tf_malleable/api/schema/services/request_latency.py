# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Messages with the latencies of the requests that a job serves."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from tf_malleable.model.services.latency import BUCKETS

_Bucket = Annotated[int, Meta(ge=0, lt=BUCKETS)]
# More than any process can serve in the seconds that a report may be late.
_Count = Annotated[int, Meta(ge=1, le=10**7)]


class RequestReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests of one process since its last report.

    Attributes:
        buckets: Buckets of the latency histogram that have requests, in ascending order.
        counts: Number of requests in each of them.
        in_flight: Number of requests that have begun and not ended.
        oldest_seconds: Time for which the oldest of these has been in flight.
    """

    buckets: Annotated[list[_Bucket], Meta(max_length=BUCKETS)] = []
    counts: Annotated[list[_Count], Meta(max_length=BUCKETS)] = []
    in_flight: Annotated[int, Meta(ge=0, le=10**7)] = 0
    oldest_seconds: Annotated[float, Meta(ge=0, le=10**9)] = 0.0

    def __post_init__(self) -> None:
        if len(self.buckets) != len(self.counts):
            raise ValueError("there must be as many counts as buckets")
        if any(low >= high for low, high in zip(self.buckets, self.buckets[1:], strict=False)):
            raise ValueError("the buckets must be in ascending order")


class RequestLatency(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that a job has served. Latencies are in seconds, at most 6 % too high.

    Attributes:
        requests: Number of requests that have ended.
        per_second: Requests that ended in a second, on average over the last ten; 0 for an ended
            job.
        in_flight: Number of requests that have begun and not ended.
        p50: Median latency, in the last ten seconds, or of the whole run of an ended job; null
            without requests.
        p99: 99th percentile of these latencies.
        tail: Latency at the percentile of the job's objective in the last second, or up to ten if
            there were few requests; null without requests or objective.
    """

    requests: int
    per_second: float = 0.0
    in_flight: int = 0
    p50: float | None = None
    p99: float | None = None
    tail: float | None = None
