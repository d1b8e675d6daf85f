# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the benchmark of containers decides by itself; no engine is needed."""

from __future__ import annotations

import pytest

from benchmarks.containers import arrivals, enlarge
from tf_malleable.model import OperationError
from tf_malleable.policies import registry


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


@pytest.mark.parametrize("number", range(12))
def test_trainings_come_again_directly_after_their_first_time(number):
    names = [configuration.name for configuration in arrivals.order(number)]
    assert sorted(names) == sorted({each.name for each in arrivals.order(0)})
    assert len(names) == 6
    again = names.index(f"{registry.DEFAULT}, again")
    assert names[again - 1] == registry.DEFAULT
    assert again > 0


def test_every_configuration_but_the_one_again_is_the_first_of_a_round():
    firsts = [arrivals.order(number)[0].name for number in range(6)]
    assert len(set(firsts)) == 5
    assert firsts[5] == firsts[0]
