# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Metrics of a tier: counters for tfm tier status and for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector


def _count(about: str) -> Any:  # noqa: ANN401
    return field(default=0, metadata={"about": about})


@dataclass
class Counters:
    """Counters since the start of the daemon."""

    source_bytes: int = _count("Bytes read from the source; by readers, as far as they report it")
    source_opens: int = _count("Files that readers opened in the source")
    peer_bytes: int = _count("Bytes fetched from other nodes")
    peer_opens: int = _count("Files fetched from other nodes")
    copy_bytes: int = _count("Bytes of files that readers opened as complete copies")
    copy_opens: int = _count("Files that readers opened as complete copies")
    growing_bytes: int = _count("Bytes that readers read from partial copies")
    served_bytes: int = _count("Bytes that other nodes fetched from this one")
    metadata: int = _count("stat calls of the daemon to the source")
    waits: int = _count("Times that a reader waited for a partial copy")
    wait_seconds: float = _count("Seconds for which readers waited")
    evictions: int = _count("Copies evicted to make room")
    rotten: int = _count("Copies, here or on other nodes, that did not match their checksums")
    scrubbed_bytes: int = _count("Bytes of copies that were reread from the disk and verified")
    unpublished: int = _count("Copies that were abandoned")


class TierCollector(Collector):
    """Prometheus collector of the current counters and gauges of a tier."""

    def __init__(self, counters: Counters, gauges: Mapping[str, Callable[[], float]]) -> None:
        """Create a collector.

        Args:
            counters: Counters of the tier.
            gauges: Functions that return the current value of a gauge, by name.
        """
        self._counters, self._gauges = counters, gauges

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield all metrics."""
        for each in fields(self._counters):
            about, value = each.metadata["about"], getattr(self._counters, each.name)
            yield CounterMetricFamily(f"tfm_tier_{each.name}", about, value=value)
        for name, gauge in self._gauges.items():
            yield GaugeMetricFamily(f"tfm_tier_{name}", name.replace("_", " "), value=gauge())
