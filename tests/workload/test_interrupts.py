# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Signals that end demos, benchmarks and workloads, so that they leave nothing behind."""

from __future__ import annotations

import signal

import pytest

from tf_malleable.workload.interrupts import end_on_signals

NUMBERS = (signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _restored():
    before = {number: signal.getsignal(number) for number in NUMBERS}
    # Whoever runs the tests may ignore it, as nohup does.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_signals_end_a_program_as_ctrl_c_does(number):
    end_on_signals()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_program_may_end_with_the_signal_s_exit_code(number):
    end_on_signals(lambda number: SystemExit(128 + number))
    with pytest.raises(SystemExit) as ended:
        signal.raise_signal(number)
    assert ended.value.code == 128 + number


def test_a_closed_terminal_s_second_signal_does_not_interrupt_the_clean_up():
    end_on_signals()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGHUP)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


def test_under_nohup_a_closed_terminal_ends_nothing():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    end_on_signals()
    signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
