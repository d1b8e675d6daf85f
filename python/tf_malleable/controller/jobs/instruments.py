# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Prometheus metrics of the controller.

Each service has its own registry, so that several services in one process (tests, a
simulator) do not share counters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.model.services.latency import upper_bound

_FAST = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class _Requests(Collector):
    """Latencies of the requests of live jobs; those that serve none have no series."""

    def __init__(self) -> None:
        self.jobs: Collection[LiveJob] = ()

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Yield the histogram of each job that has served requests."""
        family = HistogramMetricFamily(
            "tfm_request_seconds",
            "Latency of the requests that a job has served",
            labels=["job", "name"],
        )
        for live in self.jobs:
            latencies = live.measured.latencies
            if latencies.total:
                labels = [live.record.id, live.record.name]
                family.add_metric(labels, _cumulated(latencies.total), latencies.seconds)
        yield family


def _cumulated(histogram: Mapping[int, int]) -> list[tuple[str, float]]:
    """Return a histogram in Prometheus' form: for each bound, how many values are not above it."""
    found = [
        (str(bound), float(sum(n for each, n in histogram.items() if upper_bound(each) <= bound)))
        for bound in _FAST
    ]
    return [*found, ("+Inf", float(sum(histogram.values())))]


class Instruments:
    """Counters, gauges and histograms of one service."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.decisions = self._histogram("decision", "Time a policy took for one decision")
        self.acknowledgements = self._histogram(
            "acknowledge",
            "Time from publishing a grant until it was in force: acknowledged, or enforced from"
            " outside",
        )
        self.jobs = Gauge("tfm_jobs", "Live jobs", ["state"], registry=self._registry)
        self.cpus = Gauge("tfm_cpus", "CPUs shared out", registry=self._registry)
        self.granted = Gauge("tfm_granted_cpus", "CPUs granted to jobs", registry=self._registry)
        self.used = Gauge(
            "tfm_used_cpus", "CPUs that jobs kept busy recently", registry=self._registry
        )
        self.ended = Counter(
            "tfm_jobs_ended", "Jobs that have ended", ["outcome"], registry=self._registry
        )
        self.resizes = Counter(
            "tfm_resizes", "Changes of a running job's number of cores", registry=self._registry
        )
        self.pauses = Counter("tfm_pauses", "Jobs paused", registry=self._registry)
        self.energy = Counter(
            "tfm_energy_joules",
            "Energy drawn for an area; the host's includes that of other processes",
            ["area", "source"],
            registry=self._registry,
        )
        self.watts = Gauge(
            "tfm_power_watts",
            "Power drawn for an area, on average over a second",
            ["area"],
            registry=self._registry,
        )
        self._requests = _Requests()
        self._registry.register(self._requests)
        self.problems = Counter(
            "tfm_policy_problems", "Decisions that a policy failed", registry=self._registry
        )

    def _histogram(self, name: str, documentation: str) -> Histogram:
        return Histogram(
            f"tfm_{name}_seconds", documentation, buckets=_FAST, registry=self._registry
        )

    def _show(self, jobs: Collection[LiveJob]) -> None:
        """Update the gauges from the live jobs."""
        states = [job.record.state for job in jobs]
        for state in ("waiting", "running", "paused"):
            self.jobs.labels(state).set(states.count(state))
        # Two jobs may share a CPU.
        self.granted.set(len(frozenset[int]().union(*(job.record.grant.cpus for job in jobs))))
        self._requests.jobs = jobs
        self.used.set(sum(job.used_cpus or 0.0 for job in jobs))

    def render(self, jobs: Collection[LiveJob]) -> bytes:
        """Return all metrics in Prometheus' text format.

        Args:
            jobs: Live jobs.
        """
        self._show(jobs)
        return generate_latest(self._registry)
