# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Several hosts: whose CPUs are whose, and what each of them did."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest

from tf_malleable.api.schema.history import Span
from tf_malleable.figures import gantt
from tf_malleable.model import Cpu, Machine, Shape
from tf_malleable.policies import registry
from tf_malleable.simulate.engine.curves import amdahl
from tf_malleable.simulate.engine.simulation import Outcome, Scenario, simulate
from tf_malleable.simulate.engine.task import Task

# The last one's numbers have a gap, as where some CPUs are not for jobs.
SPARSE = Machine(tuple(Cpu(number, number) for number in (1, 2, 6)))
MACHINES = (Machine.flat(4), Machine.flat(8), SPARSE, Machine.flat(2))
FIRST = (0, 4, 12, 19)


def tasks() -> list[Task]:
    return [
        Task(f"job {n % 5}", 4.0 * n, 30.0 + 17 * (n % 7), amdahl(0.1), Shape(1, 2, 4 + n % 3))
        for n in range(60)
    ]


def outcome(policy: str, machines: tuple[Machine, ...] = MACHINES) -> Outcome:
    return simulate(tasks(), policy, Scenario(machines), spans=True)


def used(spans: list[Span]) -> set[int]:
    return {cpu for span in spans for cpu in span.cpus}


POLICIES = ["equal", "srpt", "lend+srpt", "efficient", "fcfs-strict", "round-robin-always-attend"]


@pytest.mark.parametrize("policy", POLICIES)
def test_no_cpu_has_two_jobs_at_once(policy):
    stretches = defaultdict(list)
    for span in outcome(policy).history.spans:
        for cpu in span.cpus:
            stretches[cpu].append((span.begin, span.end, span.job))
    assert len(stretches) > 8
    for found in stretches.values():
        for (_, end, _), (begin, _, _) in pairwise(sorted(found)):
            assert end <= begin


def test_the_cpus_of_a_host_come_after_those_of_the_hosts_before():
    hosts = outcome("equal").hosts
    for host, machine, first in zip(hosts, MACHINES, FIRST, strict=True):
        assert host.spans
        assert used(host.spans) == {first + cpu for cpu in machine.cpuset}


def test_a_policy_sees_each_host_as_it_is():
    seen = set()

    class Asked:
        def allocate(self, jobs, machine, now):
            seen.add(machine)
            return registry.create("equal").allocate(jobs, machine, now)

    simulate(tasks(), Asked(), Scenario(MACHINES))
    assert seen == set(MACHINES)


def test_a_job_stays_on_its_host():
    found = outcome("srpt")
    jobs = [{span.job for span in host.spans} for host in found.hosts]
    assert sum(map(len, jobs)) == len(set().union(*jobs)) == 60


def test_the_hosts_together_are_the_history():
    found = outcome("srpt")
    by_id = sorted((job for host in found.hosts for job in host.jobs), key=lambda job: int(job.id))
    assert by_id == found.history.jobs
    assert len(by_id) == found.counts.ends == 60
    spans = [span for host in found.hosts for span in host.spans]
    assert len(spans) == len(found.history.spans)
    assert all(span in spans for span in found.history.spans)
    assert [host.summary.jobs for host in found.hosts] == [len(host.jobs) for host in found.hosts]
    for host in found.hosts:
        assert {job.id for job in host.jobs} == {span.job for span in host.spans}


def test_spans_are_in_the_order_in_which_they_ended():
    ends = [span.end for span in outcome("equal").history.spans]
    assert ends == sorted(ends)


def test_one_host_keeps_its_numbers():
    found = outcome("equal", (SPARSE,))
    assert used(found.history.spans) == {1, 2, 6}
    assert found.hosts == (found.history,)


def test_without_spans_the_hosts_have_none_either():
    found = simulate(tasks(), "equal", Scenario(MACHINES))
    assert found.history.spans == []
    assert all(host.jobs and not host.spans for host in found.hosts)


def test_jobs_are_spread_over_equal_hosts():
    found = outcome("equal", (Machine.flat(4),) * 3)
    assert [len(host.jobs) for host in found.hosts] == pytest.approx([20] * 3, abs=4)


@pytest.mark.slow
def test_a_chart_shows_the_hosts_one_below_the_other():
    found = outcome("equal")
    parts = [(f"host {number}", host) for number, host in enumerate(found.hosts, 1)]
    cpus = [len(machine.cpus) for machine in MACHINES]
    axes = gantt.compare(parts, cpus=cpus, zero=found.history.jobs[0].submitted).axes
    assert [each.get_title("left") for each in axes[::2]] == [f"host {n}" for n in range(1, 5)]
    assert [max(each.get_yticks()) for each in axes[1::2]] == cpus
