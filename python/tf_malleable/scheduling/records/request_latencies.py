# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Latencies of the requests that a job serves, from the reports of its processes. Pure.

What processes report is bounded: a report that comes late counts as one of now, and what a process
had in flight is forgotten if it says no more of it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from tf_malleable.api.schema.services.request_latency import RequestLatency, RequestReport
from tf_malleable.model.services.latency import bucket_of, merged, quantile, upper_bound
from tf_malleable.model.services.request_load import RequestLoad
from tf_malleable.model.services.slo import Slo

# Time of reports that are merged, and number of these times that are kept.
_SLOT_SECONDS: Final = 0.1
_SLOTS: Final = 100
_SHOWN_SECONDS: Final = _SLOT_SECONDS * _SLOTS
_TAIL_SECONDS: Final = 1.0
# A process with requests in flight reports ten times a second.
_LATE_SECONDS: Final = 0.2
_SILENT_SECONDS: Final = 3.0
# Shortest time between two decisions for a service.
_ASK_SECONDS: Final = 0.05
# Number of requests above the percentile with which it means something.
_LATE_REQUESTS: Final = 2.0
# Part of the age of the oldest request that counts as a queue: one slow request is none.
_AGE_SHARE: Final = 0.5
# Share of the requests that hardly waited: the slowest of them took as long as the work does.
_QUICK_SHARE: Final = 0.1
# Part of the objective up to which a service counts as calm.
_CALM_SHARE: Final = 0.5


@dataclass(frozen=True)
class _InFlight:
    """Requests in flight of a process, as of a time."""

    number: int
    oldest_seconds: float
    at: float


@dataclass
class RequestLatencies:
    """Latencies of the requests of a job. Times are in seconds, on any one clock.

    Attributes:
        total: Histogram of all requests.
        seconds: Sum of their latencies, not more exact than the buckets.
        version: Second of the last report: what people see is not renewed more often.
    """

    total: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    version: int = 0
    _slots: deque[tuple[float, Counter[int]]] = field(default_factory=lambda: deque(maxlen=_SLOTS))
    _in_flight: dict[int, _InFlight] = field(default_factory=dict)
    _cores: int = 1
    # Time that the work of a request takes without a queue, as far as is known.
    _work: float = 0.0
    # Time of the last change of the cores, and the last time at which the service was not calm.
    _changed: float = 0.0
    _loud: float | None = None
    # Last time at which a decision was asked for.
    _asked: float = 0.0

    def add(self, pid: int, report: RequestReport, slo: Slo | None, now: float) -> bool:
        """Add a report of a process; return whether a decision may give the job more cores."""
        counts = Counter(dict(zip(report.buckets, report.counts, strict=True)))
        self.total.update(counts)
        self.seconds += sum(upper_bound(bucket) * count for bucket, count in counts.items())
        # A slot that is older than the change of cores says nothing of the new ones.
        last = self._slots[-1][0] if self._slots else -1.0
        if last >= self._changed and 0 <= now - last < _SLOT_SECONDS:
            self._slots[-1][1].update(counts)
        else:
            self._slots.append((now, counts))
        if counts or not self._work:
            self._work = quantile(self.total, _QUICK_SHARE) or 0.0
        self.version = int(now)
        self._in_flight[pid] = _InFlight(report.in_flight, report.oldest_seconds, now)
        if slo is None or self.load(slo, now).worst <= _CALM_SHARE * slo.seconds:
            return False
        was_loud, self._loud = self._loud, now
        # Processes may report as often as they like.
        is_due = not self._asked <= now < self._asked + _ASK_SECONDS
        if is_due or was_loud is None:
            self._asked = now
        return is_due or was_loud is None

    def keep(self, pids: Collection[int]) -> None:
        """Forget what other processes than these had in flight."""
        for pid in self._in_flight.keys() - set(pids):
            del self._in_flight[pid]

    def note_change(self, cores: int, now: float) -> None:
        """Record the number of cores: earlier latencies say nothing of the new ones."""
        self._changed, self._cores = now, max(1, cores)

    def load(self, slo: Slo, now: float) -> RequestLoad:
        """Return the load as a policy sees it."""
        recent = self._latest(slo, now)
        in_flight, oldest = self._pending(now)
        # The rate would be a poor guide: that of few requests says little.
        queue = in_flight * self._work / self._cores
        loud = self._changed if self._loud is None else max(self._changed, self._loud)
        return RequestLoad(
            slo,
            quantile(recent, slo.percentile / 100),
            max(queue, oldest * _AGE_SHARE),
            calm_since=loud,
        )

    def shown(self, slo: Slo | None, now: float) -> RequestLatency | None:
        """Return the latencies as users see them; None if there were no requests."""
        in_flight, _ = self._pending(now)
        if not self.total and not in_flight:
            return None
        recent = self._recent(now - _SHOWN_SECONDS, now)
        return RequestLatency(
            requests=sum(self.total.values()),
            per_second=round(sum(recent.values()) / _SHOWN_SECONDS, 1),
            in_flight=in_flight,
            p50=quantile(recent, 0.5),
            p99=quantile(recent, 0.99),
            tail=None if slo is None else self.load(slo, now).tail,
        )

    def at_end(self) -> RequestLatency | None:
        """Return the latencies of the whole run; None if there were no requests."""
        if not self.total:
            return None
        return RequestLatency(
            requests=sum(self.total.values()),
            p50=quantile(self.total, 0.5),
            p99=quantile(self.total, 0.99),
        )

    def _latest(self, slo: Slo, now: float) -> Counter[int]:
        """Return the latencies of a second, or as many as the percentile needs to mean anything."""
        found: Counter[int] = Counter()
        number = 0
        for at, counts in reversed(self._slots):
            is_enough = number * (1 - slo.percentile / 100) >= _LATE_REQUESTS
            if at < self._changed or (at < now - _TAIL_SECONDS and is_enough):
                break
            # What took longer may have begun before the cores changed.
            most = bucket_of(max(0.0, at - _SLOT_SECONDS - self._changed))
            for bucket, count in counts.items():
                if bucket < most:
                    found[bucket] += count
                    number += count
        return found

    def _recent(self, since: float, now: float) -> Counter[int]:
        return merged(counts for at, counts in self._slots if since <= at <= now)

    def _pending(self, now: float) -> tuple[int, float]:
        """Return how many requests are in flight, and for how long the oldest has been so."""
        known = [each for each in self._in_flight.values() if now - each.at < _SILENT_SECONDS]
        number = sum(each.number for each in known)
        # Between two reports the oldest may have ended; if the next one is late, it has not.
        ages = (
            each.oldest_seconds + max(0.0, now - each.at - _LATE_SECONDS)
            for each in known
            if each.number
        )
        return number, max(ages, default=0.0)
