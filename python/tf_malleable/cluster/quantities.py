# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Kubernetes quantities, such as 500m and 2Gi, as numbers."""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import lru_cache
from typing import Final

from tf_malleable.model.units import quoted

_QUANTITY: Final = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))(n|u|m||k|[MGTPE]i?|Ki|[eE][+-]?\d+)$")
_DECIMAL: Final = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "E": 1e18,
}  # fmt: skip
# No quantity is larger, as Kubernetes has it; a larger one counts as this.
_MOST: Final = 2.0**63
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


# typed: without it, the cache takes True for 1.
@lru_cache(maxsize=1024, typed=True)
def number(quantity: Hashable) -> float:
    """Return a quantity's value, in cores or bytes.

    Raises:
        ValueError: The value is not a quantity.
    """
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None or isinstance(quantity, bool):
        raise ValueError(f"a quantity is a number such as 2, 500m or 1.5Gi, not {quoted(quantity)}")
    digits, suffix = match.groups()
    if suffix in _BINARY:
        value = float(digits) * 1024.0 ** _BINARY[suffix]
    elif suffix in _DECIMAL:
        value = round(float(digits) * _DECIMAL[suffix], 9)
    else:
        value = float(digits + suffix)
    return max(-_MOST, min(_MOST, value))


def cores(value: float) -> str:
    """Return a number of cores as API servers write it: whole, or in thousandths."""
    thousandths = round(value * 1000)
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def whole(value: float) -> str:
    """Return a number of bytes as a quantity."""
    return str(round(value))
