# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Metrics of a tier: counters for tfm tier status and for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector


@dataclass
class Counters:
    """Counters since the start of the daemon.

    Attributes:
        source_bytes: Bytes read from the source; by readers, as far as they report it.
        source_opens: Files that readers opened in the source.
        peer_bytes: Bytes fetched from other nodes.
        peer_opens: Files fetched from other nodes.
        copy_bytes: Bytes of files that readers opened as complete copies.
        copy_opens: Files that readers opened as complete copies.
        growing_bytes: Bytes that readers read from partial copies.
        served_bytes: Bytes that other nodes fetched from this one.
        metadata: stat calls of the daemon to the source.
        waits: Times that a reader waited for a partial copy.
        wait_seconds: Total time that readers waited, in seconds.
        evictions: Copies evicted to make room.
        rotten: Copies, here or on other nodes, that did not match their checksums.
        scrubbed_bytes: Bytes of copies that were reread from the disk and verified.
        unpublished: Copies that were abandoned.
    """

    source_bytes: int = 0
    source_opens: int = 0
    peer_bytes: int = 0
    peer_opens: int = 0
    copy_bytes: int = 0
    copy_opens: int = 0
    growing_bytes: int = 0
    served_bytes: int = 0
    metadata: int = 0
    waits: int = 0
    wait_seconds: float = 0.0
    evictions: int = 0
    rotten: int = 0
    scrubbed_bytes: int = 0
    unpublished: int = 0

    def as_dict(self) -> dict[str, float]:
        """Return all counters by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


_HELP: Final = {
    "source_bytes": "Bytes read from the source",
    "source_opens": "Files opened in the source",
    "peer_bytes": "Bytes fetched from other nodes",
    "peer_opens": "Files fetched from other nodes",
    "copy_bytes": "Bytes of files opened as complete copies",
    "copy_opens": "Files opened as complete copies",
    "growing_bytes": "Bytes read from growing copies",
    "served_bytes": "Bytes that other nodes fetched here",
    "metadata": "Times the daemon asked the source for the state of a file",
    "waits": "Times a reader waited for a growing copy",
    "wait_seconds": "Seconds for which readers waited",
    "evictions": "Copies that were evicted",
    "rotten": "Copies that failed their checksums",
    "scrubbed_bytes": "Bytes of copies that were reread and verified",
    "unpublished": "Copies that were given up",
}


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
        for name, value in self._counters.as_dict().items():
            yield CounterMetricFamily(f"tfm_tier_{name}", _HELP[name], value=value)
        for name, gauge in self._gauges.items():
            yield GaugeMetricFamily(f"tfm_tier_{name}", name.replace("_", " "), value=gauge())


def registry_of(collector: TierCollector) -> CollectorRegistry:
    """Return a registry with this collector alone."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return registry
