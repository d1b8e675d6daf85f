# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Service level objective: the latency that a share of a service's requests must not exceed."""

from __future__ import annotations

import re

from tf_malleable.model.units import quoted
from tf_malleable.quick_dataclass import dataclass

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from typing import Final

LONGEST_SLO: Final = 40
"""Maximum length of an objective as text."""

_SLO: Final = re.compile(r"p([0-9]{1,2}(?:\.[0-9]{1,3})?)=([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s)")
_UNIT_SECONDS: Final = {"ms": 0.001, "s": 1.0}
_LEAST_SECONDS: Final = 0.001
_MOST_SECONDS: Final = 3600.0


@dataclass(frozen=True)
class Slo:
    """Objective of a service.

    Attributes:
        percentile: Percentage of the requests that must be answered in time, above 0, below 100.
        seconds: Latency that these must not exceed.
    """

    percentile: float
    seconds: float

    @property
    def text(self) -> str:
        """The objective as users write it."""
        if self.seconds < 1:
            return f"p{self.percentile:g}={1000 * self.seconds:g}ms"
        return f"p{self.percentile:g}={self.seconds:g}s"


def parse_slo(text: object) -> Slo:
    """Return the objective that a text such as ``"p99=50ms"`` means.

    Raises:
        ValueError: The text is no objective, or the latency is not 1 ms to 1 hour.
    """
    found = _SLO.fullmatch(text) if isinstance(text, str) else None
    percentile = float(found[1]) if found else 0.0
    seconds = float(found[2]) * _UNIT_SECONDS[found[3]] if found else 0.0
    if not (0 < percentile < 100 and _LEAST_SECONDS <= seconds <= _MOST_SECONDS):
        raise ValueError(
            "slo must be a percentile below 100 and a latency from 1 ms to 1 hour, such as"
            f" p99=50ms or p99.9=1.5s, not {quoted(text)}"
        )
    return Slo(percentile, seconds)
