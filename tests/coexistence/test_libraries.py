# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Beside PyTorch and JAX, in whatever order they are imported."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import permutations

import pytest

from tests.support import harness
from tests.support.controllers import TFM

MODULE = "cases_libraries"
CHANGES = 2000
# Loading all of them takes many seconds, and other tests run meanwhile.
TIMEOUT = 300

IN_TIME = [
    *(["tf_malleable", *others] for others in permutations(("tensorflow", "torch", "jax"))),
    # Before TensorFlow is enough.
    ["torch", "jax", "tf_malleable", "tensorflow"],
]
TOO_LATE = [
    ["tensorflow", "tf_malleable", "torch", "jax"],
    ["jax", "torch", "tensorflow", "tf_malleable"],
]


@pytest.mark.parametrize("order", IN_TIME, ids="-".join)
def test_each_computes_as_if_alone_while_limits_change(call, order):
    found = call(
        MODULE, "with_limits", order, harness.CAPACITY, CHANGES, stock=True, timeout=TIMEOUT
    )
    assert found["backend"] == "overlay"
    assert found["wrong"] == []
    assert all(rounds > 10 for rounds in found["rounds"].values()), found["rounds"]
    assert found["torch_threads"] == 3
    assert found["settled"]
    assert found["above"] == []
    assert set(found["limits"]) == {1}
    # The pools that exist are TensorFlow's, although JAX has a copy of their code.
    assert {"tf_Compute", "tf_numa_-1_Eigen"} <= set(found["built"].pop("tensorflow"))
    assert found["built"] == {"torch": [], "jax": []}


@pytest.mark.parametrize("order", TOO_LATE, ids="-".join)
def test_after_tensorflow_the_limits_are_refused_and_all_else_works(call, order):
    found = call(MODULE, "too_late", order, stock=True, timeout=TIMEOUT)
    assert found["backend"] is None
    assert found["said"].startswith("tf_malleable was imported after tensorflow, too late")
    assert found["wrong"] == []


def test_threadpoolctl_limits_what_it_is_told_to(call):
    """A number for all APIs is for TensorFlow and PyTorch, which computes with OpenMP."""
    assert call(MODULE, "with_threadpoolctl", stock=True, timeout=TIMEOUT) == {
        "at first": [4, 3],
        "tensorflow": [2, 3],
        "openmp": [4, 2],
        "all": [2, 2],
        "at last": [4, 3],
    }


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU confines JAX, too")
def test_that_a_limit_does_not_reach_jax_is_said():
    words = [TFM, "run", "--threads", "1", "--", sys.executable, "-c", "import jax"]
    result = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    assert result.stderr.count("tfm run: --threads 1 does not limit JAX") == 1
