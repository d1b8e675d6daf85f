# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Quantities such as 500m and 2Gi, as numbers and in the form that a server writes them."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

_QUANTITY = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))(n|u|m||k|[MGTPE]i?|Ki|[eE][+-]?\d+)$")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


def parse(quantity: Any) -> Fraction:
    """Return a quantity's value.

    Raises:
        ValueError: It is none.
    """
    match = _QUANTITY.match(str(quantity)) if isinstance(quantity, str | int | float) else None
    if match is None or isinstance(quantity, bool):
        raise ValueError(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    number, suffix = match.groups()
    if suffix in _BINARY:
        return Fraction(number) * Fraction(1024 ** _BINARY[suffix])
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    power = Fraction(10**exponent) if exponent >= 0 else Fraction(1, 10**-exponent)
    return Fraction(number) * power


def canonical(quantity: Any) -> str:
    """Return a quantity as a server writes it: without fraction, with the largest suffix.

    Raises:
        ValueError: It is none.
    """
    value = parse(quantity)
    if str(quantity)[-1:] == "i":
        for suffix, power in sorted(_BINARY.items(), key=lambda item: -item[1]):
            if value and value % 1024**power == 0:
                return f"{value / 1024**power}{suffix}"
    return written(value)


def written(value: Fraction) -> str:
    """Return a value as a decimal quantity, rounded up to a billionth."""
    for suffix, exponent in sorted(_DECIMAL.items(), key=lambda item: -item[1]):
        scaled = value / Fraction(10) ** exponent
        if value and scaled.denominator == 1:
            return f"{scaled}{suffix}"
    return f"{-((-value * 10**9) // 1)}n" if value else "0"
