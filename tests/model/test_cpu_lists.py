# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""CPU lists are read and written as the kernel does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.model import format_cpuset, parse_cpuset


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", set()),
        ("0", {0}),
        ("0-3,7", {0, 1, 2, 3, 7}),
        ("7,0-3", {0, 1, 2, 3, 7}),
        (" 1 , 3-4\n", {1, 3, 4}),
        ("2-2,2,1-3", {1, 2, 3}),
        ("65535", {65535}),
    ],
)
def test_lists_that_can_be_read(text, cpus):
    assert parse_cpuset(text) == cpus


@pytest.mark.parametrize(
    "text",
    ["a", "-1", "1-", "3-1", "1,,2", ",", "1-2-3", "0x1", "1.5", "65536", "0-99999999", "²", "1 2"],
)
def test_text_that_is_no_list(text):
    with pytest.raises(ValueError, match="CPUs must be a list such as 0-3,7, not ") as refused:
        parse_cpuset(text)
    assert repr(text) in str(refused.value)


def test_runs_are_written_as_ranges():
    assert format_cpuset([7, 2, 0, 1, 1]) == "0-2,7"
    assert format_cpuset([]) == ""


@given(st.sets(st.integers(0, 65535)))
def test_written_lists_are_read_back(cpus):
    assert parse_cpuset(format_cpuset(cpus)) == cpus


def test_the_kernel_writes_the_same():
    (allowed,) = (
        line.split(":")[1].strip()
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("Cpus_allowed_list:")
    )
    assert parse_cpuset(allowed) == os.sched_getaffinity(0)
    assert format_cpuset(os.sched_getaffinity(0)) == allowed
