# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The budget of an area in virtual time: its jobs on a host whose other jobs come and go."""

from __future__ import annotations

import pytest

from benchmarks.power.servers import SERVERS
from tests.support.policy_situations import carried_out
from tf_malleable.controller.power.area_budgets import AreaBudgets
from tf_malleable.model import Budget, Job, Machine, PowerLimit, Shape
from tf_malleable.policies.registry import create

CPUS = 8
STEP = 0.1


class Host:
    """A host that draws what its curve says, and one that tells so once a second."""

    def __init__(self, curve, budget: Budget) -> None:
        self.curve, self.budget, self.at = curve, budget, 1000.0
        self.jobs = [Job("mine", Shape(1, 4, 4), submitted=0.0, area="a")]
        self.areas = AreaBudgets(
            lambda budget: PowerLimit(budget, curve, CPUS, CPUS),
            lambda area: sum(len(job.grant.cpus) for job in self.jobs if job.area == area),
            lambda: self.at,
            lambda: None,
        )
        self.areas.give("a", budget)
        self.policy = create("budget+equal")
        self.drawn = [0.0]
        self.unknown = 0.0

    def step(self) -> None:
        machine = Machine(Machine.flat(CPUS).cpus, areas=self.areas.limits())
        found = self.policy.allocate(self.jobs, machine, self.at)
        self.jobs = carried_out(self.jobs, found, self.at)
        counts = {job.id: len(job.grant.cpus) for job in self.jobs}
        busy = sum(counts.values())
        active = self.curve.watts(busy / CPUS) - self.curve.idle
        joules = STEP * active * counts["mine"] / busy if busy else 0.0
        self.drawn.append(self.drawn[-1] + joules)
        self.unknown += joules
        self.at += STEP
        if len(self.drawn) % 10 == 1:
            self.areas.note_drawn(1.0, {"a": self.unknown})
            self.unknown = 0.0


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS[3::4], ids=lambda server: server.name)
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_a_mean_is_kept_in_every_window_and_used(server, share):
    window = 60.0
    watts = share * (server.curve.full - server.curve.idle) / 2
    host = Host(server.curve, Budget(watts, "mean", window))
    other = Job("other", Shape(1, 4, 4), submitted=0.0)
    for tick in range(1800):
        if tick % 300 == 0:
            host.jobs = [job for job in host.jobs if job.id == "mine"]
            host.jobs += [other] if tick % 600 else []
        host.step()
    length = round(window / STEP)
    means = [(b - a) / window for a, b in zip(host.drawn, host.drawn[length:], strict=False)]
    assert max(means) <= 1.02 * watts
    # Without the others all that may be drawn is used, unless all cores need less.
    assert host.drawn[-1] / (1800 * STEP) >= 0.9 * watts
