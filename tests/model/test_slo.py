# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Objectives as users write them."""

from __future__ import annotations

import pytest

from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.model.services.slo import Slo, parse_slo


@pytest.mark.parametrize(
    ("text", "objective"),
    [
        ("p99=50ms", Slo(99.0, 0.05)),
        ("p99.9=1.5s", Slo(99.9, 1.5)),
        ("p50=1ms", Slo(50.0, 0.001)),
        ("p95=3600s", Slo(95.0, 3600.0)),
        ("p99=2.5ms", Slo(99.0, 0.0025)),
    ],
)
def test_objectives(text, objective):
    assert parse_slo(text) == objective
    assert parse_slo(objective.text) == objective
    assert JobRequest("name", slo=text).slo == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "p99",
        "50ms",
        "p99=0ms",
        "p99=0.9ms",
        "p99=3601s",
        "p99=-5ms",
        "p99=nan",
        "p99=NaNms",
        "p99=infs",
        "p99=50",
        "p99=50us",
        "p0=50ms",
        "p100=50ms",
        "p99=50ms\n",
        "p99=50ms,p50=5ms",
        "p٩٩=50ms",
        "x" * 1000,
        None,
        0.05,
        float("nan"),
    ],
)
def test_what_is_no_objective_is_refused_in_one_sentence(text):
    with pytest.raises(ValueError, match=r"^slo must be a percentile below 100 and a lat") as error:
        parse_slo(text)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300
