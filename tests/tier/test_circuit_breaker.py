# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The breaker: three misses in a row, then nothing for a while."""

from __future__ import annotations

from tf_malleable.tier.peers.circuit_breaker import MISSES, OFF_SECONDS, Breaker


def test_one_miss_is_none():
    breaker = Breaker()
    assert not breaker.miss(0.0)
    assert not breaker.miss(0.5)
    assert breaker.allows(1.0)


def test_three_in_a_row_open_it_for_a_while():
    breaker = Breaker()
    assert [breaker.miss(float(n)) for n in range(MISSES)] == [False, False, True]
    assert not breaker.allows(2.0 + OFF_SECONDS - 0.1)
    assert breaker.allows(2.0 + OFF_SECONDS)
    assert breaker.opened == 1
    assert not breaker.miss(40.0)


def test_an_answer_between_them_starts_anew():
    breaker = Breaker()
    for _ in range(5):
        breaker.miss(0.0)
        breaker.miss(0.0)
        breaker.answer()
    assert breaker.allows(0.0)
