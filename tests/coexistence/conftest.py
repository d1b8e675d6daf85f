# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Children that run a function of one of cases_*.py, and a fake controller."""

from __future__ import annotations

import functools
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import harness
from tests.support.fixtures import fake as fake

LIBRARIES = ("gevent", "jax", "torch", "uvloop")


@pytest.fixture(scope="session", autouse=True)
def _libraries():
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    assert not missing, f"there is no {', '.join(missing)} here: run make coexistence"


@pytest.fixture
def call():
    """Return harness.call, for functions beside this file.

    With stock=True the child does not import tf_malleable first, but leaves it to the function.
    """
    return functools.partial(
        harness.call,
        fresh=True,
        PYTHONPATH=Path(__file__).parent,
        TF_MALLEABLE_MAX_THREADS=harness.CAPACITY,
        JAX_PLATFORMS="cpu",
    )
