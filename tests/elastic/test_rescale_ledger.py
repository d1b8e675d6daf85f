# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The longest pause of a rescale is known to all, whoever dies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tf_malleable.elastic.membership.rescale_ledger import Ledger, Rescale

RESCALE = Rescale(3, 100.0, 2, 3, 0, 0, None, "join")


def learned(*pauses):
    ledger = Ledger()
    for seconds in pauses:
        ledger.learn(replace(RESCALE, pause_seconds=seconds))
    return ledger


@pytest.mark.parametrize(
    ("pauses", "longest"),
    [((None,), None), ((None, 0.0), 0.0), ((0.0, 0.5), 0.5), ((0.5, 0.1, None), 0.5)],
)
def test_the_longest_pause_told_of_is_remembered(pauses, longest):
    assert list(learned(*pauses)) == [replace(RESCALE, pause_seconds=longest)]


def test_an_own_pause_is_remembered_before_the_rescale_is_told_of():
    ledger = Ledger()
    ledger.paused(3, 0.5)
    ledger.learn(replace(RESCALE, pause_seconds=0.1))
    assert list(ledger) == [replace(RESCALE, pause_seconds=0.5)]
    ledger.paused(3, 0.7)
    assert list(ledger) == [replace(RESCALE, pause_seconds=0.7)]
