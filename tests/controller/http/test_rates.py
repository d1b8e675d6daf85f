# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How often each caller may do something."""

from __future__ import annotations

import pytest

from tf_malleable.controller.http.rates import Rates


def test_a_burst_is_let_through_and_then_the_rate():
    rates = Rates(10.0, 3)
    assert [rates.admits("a", 0.0) for _ in range(5)] == [True, True, True, False, False]
    assert [rates.admits("a", 0.1) for _ in range(2)] == [True, False]
    assert [rates.admits("a", 100.0) for _ in range(4)] == [True, True, True, False]


def test_who_comes_too_early_waits_for_his_turn():
    rates = Rates(10.0, 2)
    delays = [rates.delay("a", 0.0) for _ in range(5)]
    assert delays == pytest.approx([0.0, 0.0, 0.1, 0.2, 0.3])
    assert rates.delay("a", 0.35) == pytest.approx(0.05)


def test_callers_do_not_disturb_each_other():
    rates = Rates(10.0, 1)
    assert rates.admits("a", 0.0)
    assert rates.admits("b", 0.0)
    assert not rates.admits("a", 0.0)


def test_the_calm_are_forgotten_and_others_are_not():
    rates = Rates(10.0, 1)
    rates.delay("calm", 0.0)
    rates.delay("wild", 0.0)
    rates.delay("wild", 0.0)
    rates.forget(0.15)
    assert not rates.admits("wild", 0.15)
    assert rates.delay("calm", 0.15) == 0.0


def test_what_took_long_counts_for_more():
    rates = Rates(10.0, 1)
    assert rates.delay("a", 0.0) == 0.0
    rates.charge("a", 0.5)
    rates.charge("nobody", 0.5)
    assert rates.delay("a", 0.0) == pytest.approx(0.6)
    assert rates.delay("nobody", 0.0) == 0.0
