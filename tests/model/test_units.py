# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Quantities as people read them."""

from __future__ import annotations

import pytest

from tf_malleable.model.units import energy


@pytest.mark.parametrize(
    ("joules", "text"),
    [
        (None, "-"),
        (0.0, "0 J"),
        (0.0123, "0.0123 J"),
        (820.4, "820 J"),
        (999.6, "1.0 kJ"),
        (12_500.0, "12.5 kJ"),
        (3.6e6, "1.00 kWh"),
    ],
)
def test_energy(joules, text):
    assert energy(joules) == text
