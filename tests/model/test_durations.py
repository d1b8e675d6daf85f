# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Durations as text."""

from __future__ import annotations

import pytest

from tf_malleable.model.units import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("45s", 45.0),
        ("30m", 1800.0),
        ("12h", 43200.0),
        ("90d", 7776000.0),
        ("36500d", 3153600000.0),
    ],
)
def test_a_duration_is_a_number_with_a_unit(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "12", "0s", "-1m", "1.5h", "2w", "²h", "1h\n", "36501d"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="must be a duration such as 12h or 90d, not"):
        parse_duration(text)
