# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Signals that end demos, benchmarks and workloads, so that they leave nothing behind."""

from __future__ import annotations

import signal
import threading

import pytest

from tf_malleable.workload.interrupts import delay_signals, end_on_signals

NUMBERS = (signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _restored():
    before = {number: signal.getsignal(number) for number in NUMBERS}
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


@pytest.mark.parametrize("number", [signal.SIGINT, *NUMBERS])
def test_delayed_signals_interrupt_at_the_end(number):
    end_on_signals()
    steps = []

    def interrupted() -> None:
        with delay_signals():
            signal.raise_signal(number)
            steps.append("went on")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert steps == ["went on"]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


def test_nothing_is_delayed_that_does_not_interrupt():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with delay_signals():
        signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_signals_interrupt_no_other_thread():
    threads = []

    def delayed() -> None:
        with delay_signals():
            threads.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=delayed)
    thread.start()
    thread.join()
    assert threads == [signal.getsignal(signal.SIGTERM)]
