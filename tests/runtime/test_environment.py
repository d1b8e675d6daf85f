# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Environment variables are checked before anything depends on them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.runtime import environment


@given(value=st.integers(1, environment.CEILING))
def test_a_count_is_taken(value):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(environment.MAX_THREADS, str(value))
        assert environment.max_threads() == value


@pytest.mark.parametrize("value", ["0", "-1", "1025", "two", "1.5", " 4", "٤", "1e3", "0x4"])
def test_garbage_is_refused(value, monkeypatch):
    monkeypatch.setenv(environment.MAX_THREADS, value)
    with pytest.raises(ValueError, match="from 1 to 1024, not ") as caught:
        environment.max_threads()
    assert repr(value) in str(caught.value)


def test_unset_and_empty_mean_all_cpus(monkeypatch):
    monkeypatch.delenv(environment.MAX_THREADS, raising=False)
    monkeypatch.delenv(environment.THREADS, raising=False)
    assert environment.max_threads() == os.cpu_count()
    assert environment.first_threads() is None
    monkeypatch.setenv(environment.MAX_THREADS, "")
    assert environment.max_threads() == os.cpu_count()


def test_the_first_limit_is_bounded_by_the_capacity(monkeypatch):
    monkeypatch.setenv(environment.MAX_THREADS, "8")
    monkeypatch.setenv(environment.THREADS, "8")
    assert environment.first_threads() == 8
    monkeypatch.setenv(environment.THREADS, "9")
    assert environment.first_threads() == 8
    monkeypatch.setenv(environment.THREADS, "0")
    with pytest.raises(ValueError, match="TF_MALLEABLE_THREADS must be an integer from 1, not"):
        environment.first_threads()


@pytest.mark.parametrize("name", [environment.MAX_THREADS, environment.THREADS])
def test_import_says_so(name):
    result = subprocess.run(
        [sys.executable, "-c", "import tf_malleable"],
        env={**os.environ, name: "many"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert f"ValueError: {name} must be an integer" in result.stderr


def test_the_library_takes_both():
    script = (
        "import tf_malleable; from tf_malleable.runtime import _native\n"
        "now = _native.get_threads(); print(now.intra, now.intra_max)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, environment.MAX_THREADS: "7", environment.THREADS: "5"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.split() == ["5", "7"]


def test_the_capacity_is_the_library_s_whatever_python_counts():
    script = (
        "import os; os.cpu_count = lambda: 1\n"
        "from tf_malleable.runtime import _native, environment\n"
        "print(environment.max_threads(), _native.get_threads().intra_max)"
    )
    counts = (environment.MAX_THREADS, environment.THREADS)
    result = subprocess.run(
        [sys.executable, "-c", script],
        env={name: value for name, value in os.environ.items() if name not in counts},
        capture_output=True,
        text=True,
        check=True,
    )
    ours, library = map(int, result.stdout.split())
    assert ours == library


@pytest.mark.parametrize(("text", "meaning"), [("", None), ("0", False), ("1", True)])
def test_following_is_asked_for_declined_or_left_open(text, meaning, monkeypatch):
    monkeypatch.setenv(environment.FOLLOW_CGROUP, text)
    assert environment.follow_cgroup() is meaning


@pytest.mark.parametrize(("text", "meaning"), [("", True), ("0", False), ("1", True)])
def test_tf_config_threading_is_ours_unless_declined(text, meaning, monkeypatch):
    monkeypatch.setenv(environment.TF_CONFIG_THREADING, text)
    assert environment.tf_config_threading() is meaning


@pytest.mark.parametrize(
    ("variable", "read"),
    [
        ("TF_MALLEABLE_FOLLOW_CGROUP", environment.follow_cgroup),
        ("TF_MALLEABLE_TF_CONFIG_THREADING", environment.tf_config_threading),
    ],
)
@pytest.mark.parametrize("text", ["2", "yes", " 1", "-1", "１"])
def test_a_switch_is_nothing_else(text, variable, read, monkeypatch):
    monkeypatch.setenv(variable, text)
    with pytest.raises(ValueError, match=f"{variable} must be 0 or 1, not ") as error:
        read()
    assert repr(text) in str(error.value)
