# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Load of a service by its requests, as a policy sees it."""

from __future__ import annotations

from dataclasses import dataclass

from tf_malleable.model.services.slo import Slo


@dataclass(frozen=True)
class RequestLoad:
    """Load of a service that has an objective. Times are in seconds.

    Attributes:
        slo: Objective of the service.
        tail: Latency at the objective's percentile since the cores last changed, of a second or, if
            there were few requests, up to ten; None without requests.
        queue: Time that the work of the requests in flight takes with all cores, or half the time
            for which the oldest has been in flight, if that is longer; 0 without any.
        calm_since: Time since which tail and queue have been at most half of the objective; that
            of the last change of cores if it is later.
    """

    slo: Slo
    tail: float | None = None
    queue: float = 0.0
    calm_since: float = 0.0

    @property
    def worst(self) -> float:
        """The longer of tail and queue, in seconds."""
        return max(self.tail or 0.0, self.queue)
