# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One user's jobs change all the time, so that another's is resized: how often that can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from tf_malleable.model import Machine, Shape
from tf_malleable.policies.registry import create
from tf_malleable.scheduling.decision.decision import Candidate, decide
from tf_malleable.scheduling.decision.policy_input import job_of
from tf_malleable.scheduling.records import time_accounts
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.lessons import Lessons
from tf_malleable.scheduling.records.speeds import Speedometer

CPUS = 4
STEP_SECONDS = 0.25
VICTIM, HOSTILE = 4001, 4004


def record(name: str, uid: int) -> Record:
    shape = Shape(1, CPUS, CPUS)
    return Record(name, name, (), None, uid, shape, 0, 1.0, 0.0, 0.0, 0.0)


@dataclass
class Situation:
    """A victim's job and a hostile one, in virtual time."""

    policy: str
    victim: Record = field(default_factory=lambda: record("victim", VICTIM))
    hostile: Record | None = field(default_factory=lambda: record("hostile", HOSTILE))
    hostile_used: float = CPUS
    now: float = 0.0

    def step(self) -> None:
        self.now += STEP_SECONDS
        found = [each for each in (self.hostile, self.victim) if each is not None]
        used = {"victim": float(CPUS), "hostile": self.hostile_used}
        candidates = [
            Candidate(
                job_of(each, Speedometer(), Lessons(), used[each.id], self.now),
                each.by_hand,
                barred=False,
            )
            for each in found
        ]
        grants = decide(create(self.policy), candidates, Machine.flat(CPUS), self.now).grants
        for each in found:
            grant = grants.get(each.id)
            if grant is not None and grant != each.grant:
                setattr(self, each.id, time_accounts.granted(each, grant, self.now))

    def resizes(self, attack: Callable[[Situation], None], seconds: float) -> int:
        """Return how often the victim's job is resized in some seconds of an attack."""
        before, end = self.victim.resizes, self.now + seconds
        while self.now < end:
            attack(self)
            self.step()
        return self.victim.resizes - before


def naps(here: Situation) -> None:
    """Sleep until the other job has one's cores, and then take them back at once."""
    here.hostile_used = CPUS if len(here.victim.grant.cpus) > CPUS // 2 else 0.0


def sets_cores(here: Situation) -> None:
    assert here.hostile is not None
    by_hand = 1 if here.hostile.by_hand is None else None
    here.hostile = replace(here.hostile, by_hand=by_hand)


def comes_and_goes(here: Situation) -> None:
    here.hostile = record("hostile", HOSTILE) if here.hostile is None else None


@pytest.mark.parametrize(
    ("attack", "policy", "first", "later"),
    [
        (naps, "lend+srpt", 10, 8),
        (naps, "lend+equal", 10, 8),
        (sets_cores, "equal", 16, 10),
        # In between, there is no other user.
        (comes_and_goes, "equal", 44, 30),
    ],
)
def test_a_job_is_resized_seldom_whatever_another_user_does(attack, policy, first, later):
    here = Situation(policy)
    here.step()
    assert here.victim.grant
    assert 0 < here.resizes(attack, 30.0) <= first
    for _ in range(3):
        assert 0 < here.resizes(attack, 30.0) <= later


@pytest.mark.parametrize("attack", [naps, sets_cores, comes_and_goes])
def test_once_it_is_over_the_job_has_all_cores_soon(attack):
    here = Situation("lend+equal")
    here.resizes(attack, 60.0)
    here.hostile = None
    here.resizes(lambda _: None, 10.0)
    assert len(here.victim.grant.cpus) == CPUS


def test_cores_that_a_person_sets_are_set_at_once():
    here = Situation("equal")
    here.resizes(comes_and_goes, 30.0)
    here.hostile = None
    for cores in (1, 4, 2, 3, 4):
        here.victim = replace(here.victim, by_hand=cores)
        here.step()
        assert len(here.victim.grant.cpus) == cores
