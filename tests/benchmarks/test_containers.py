# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the benchmark of containers decides by itself; no engine is needed."""

from __future__ import annotations

import pytest

from benchmarks.containers import enlarge
from tf_malleable.model import OperationError


class Trainer:
    """Is asked to train, and says when each step began."""

    def ask(self, command: str, *, steps: int) -> list[float]:
        return [100.0, 101.5, 103.0]


@pytest.fixture
def change(monkeypatch):
    """Changes of CPUs that were asked for; none waits until it has settled."""
    asked: list[int] = []
    monkeypatch.setattr(enlarge, "_settle", lambda change, cpus: change(cpus))
    return asked


def test_a_training_is_enlarged_under_way(change):
    sample = enlarge._enlarged("me", Trainer(), change.append, 0.0, 4.0)
    assert change == [1, 2]
    assert (sample.by, sample.at_two, sample.enlarged) == ("me", 4.0, 3.0)


def test_a_training_that_was_not_enlarged_is_no_sample(change):
    def refused(cpus: int) -> None:
        change.append(cpus)
        if cpus == 2:
            raise OperationError("the engine refuses")

    with pytest.raises(OperationError, match="the engine refuses"):
        enlarge._enlarged("me", Trainer(), refused, 0.0, 4.0)
    assert change == [1, 2]
