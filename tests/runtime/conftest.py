# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A stand-in for the C ABI, whose limits depend on nothing else that runs here."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tf_malleable.runtime import _native, library, limit_stack, limits, threadpools


class Pools:
    """Stands in for TensorFlow's pools, of which each starts with 4 of 8 threads."""

    KEEP = _native.KEEP
    UNSET = _native.UNSET

    def __init__(self):
        self.now = [4, 4]

    tensorflow_version = staticmethod(_native.tensorflow_version)

    def set_threads(self, *wanted):
        self.now = [
            now if limit == self.KEEP else limit
            for now, limit in zip(self.now, wanted, strict=True)
        ]

    def get_threads(self):
        intra, inter = self.now
        return SimpleNamespace(
            intra=intra, inter=inter, intra_set=intra, inter_set=inter, intra_max=8, inter_max=8
        )


@pytest.fixture
def pools(monkeypatch):
    found = Pools()
    for module in (limit_stack, limits, threadpools):
        monkeypatch.setattr(module, "_native", found)
    monkeypatch.setattr(limits, "_stack", limit_stack.LimitStack())
    monkeypatch.setattr(library, "require", lambda: None)
    return found
