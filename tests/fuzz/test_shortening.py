# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""An input that breaks a rule is made shorter, so that a person can read it."""

from __future__ import annotations

import subprocess
import sys
import time

import fuzz_parsers
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import parsers
from tests.support.parsers import Parser


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_what_an_input_needs_to_be_bad_is_left(before, after):
    data = before + b"{[" + after
    assert fuzz_parsers.shorten(data, lambda said: b"{[" in said) == b"{["


def test_it_ends_in_time():
    data = bytes(1000)
    begin = time.monotonic()
    assert fuzz_parsers.shorten(data, lambda said: True, until=begin) == data


def test_an_input_stays_bad_for_the_same_reason(monkeypatch):
    def parse(data: bytes) -> None:
        if len(data) < 3:
            raise KeyError("short")
        raise OSError(data.decode("latin-1"))

    monkeypatch.setitem(parsers.PARSERS, "bad", Parser(parse))
    assert len(fuzz_parsers.shortened("bad", b"x" * 100)) == 3


@pytest.mark.slow
def test_a_run_ends_when_its_time_is_over(tmp_path):
    pytest.importorskip("atheris", reason="make fuzz installs it")
    options = ["--seconds", "1", "--seed", "7", "--jobs", "2", "--out", str(tmp_path)]
    command = [sys.executable, fuzz_parsers.__file__, *options, "tier-message", "pod"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    header, *said = done.stdout.splitlines()
    assert header == "2 parsers, 1 s each, with --seed 7"
    kept = sorted(line.split(" for ")[0] for line in said)
    assert kept == ["pod: kept its rules", "tier-message: kept its rules"]
