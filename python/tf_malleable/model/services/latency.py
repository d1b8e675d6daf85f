# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Histogram of latencies with log-linear buckets, as HDR histograms have them.

A bucket is at most a sixteenth wider than its lower bound, so quantiles are at most 6 % too high,
whatever the range, and a histogram has at most 464 counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

# In microseconds: up to 16 each has a bucket, then each power of two has 16 of them.
_BITS: Final = 4
_SPLIT: Final = 1 << _BITS
_LONGEST: Final = (1 << 32) - 1

BUCKETS: Final = (33 - _BITS) * _SPLIT
"""Number of buckets; the last one ends at 71 minutes, and has all that took longer."""


def bucket_of(seconds: float) -> int:
    """Return the number of the bucket of a latency, which is not negative."""
    micros = min(_LONGEST, max(0, int(seconds * 1e6)))
    shift = max(0, micros.bit_length() - _BITS - 1)
    return (shift << _BITS) + (micros >> shift)


def upper_bound(bucket: int) -> float:
    """Return the latency in seconds at which a bucket ends."""
    shift = max(0, (bucket >> _BITS) - 1)
    return float((bucket - (shift << _BITS) + 1) << shift) / 1e6


def merged(histograms: Iterable[Mapping[int, int]]) -> Counter[int]:
    """Return the sum of histograms, from buckets to counts."""
    found: Counter[int] = Counter()
    for each in histograms:
        found.update(each)
    return found


def quantile(histogram: Mapping[int, int], share: float) -> float | None:
    """Return the latency in seconds that this share of the requests did not exceed.

    Args:
        histogram: Counts by bucket.
        share: Share of the requests, above 0, at most 1.

    Returns:
        The upper bound of the bucket; None if there are no requests.
    """
    left = share * sum(histogram.values())
    for bucket in sorted(histogram):
        left -= histogram[bucket]
        if left <= 1e-9:
            return upper_bound(bucket)
    return None
