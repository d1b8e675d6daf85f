# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Others confine a job, too: its limits are the number of CPUs that it can really use."""

from __future__ import annotations

import os
import time
from contextlib import suppress

import pytest

from tests.support import cgroups
from tests.support.cgroup_probe import skip_without
from tests.support.deadline import DEADLINE
from tests.support.jobs import ALL, FIRST, LAST, Job

pytestmark = pytest.mark.skipif(len(ALL) < 2, reason="needs two CPUs")

# Three threads of its own; answers with TensorFlow's limits.
PROGRAM = """
import sys, threading
import tf_malleable as tfm
from tf_malleable.runtime import _native
for _ in range(3):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
for line in sys.stdin:
    if line.strip():
        tfm.set_threads(int(line))
    now = _native.get_threads()
    print(now.intra_set, now.inter_set, flush=True)
"""


@pytest.fixture
def job(fake):
    with Job(PROGRAM, fake.path, TF_MALLEABLE_MAX_THREADS="16") as job:
        yield job


def confine(job: Job, cpus: set[int]) -> None:
    """Do what taskset -a -p does."""
    for thread in os.listdir(f"/proc/{job.pid}/task"):
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread), cpus)


def until(job: Job, limits: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while (said := job.ask()) != limits:
        assert time.monotonic() < deadline, said
        time.sleep(0.02)


@pytest.mark.slow
def test_taskset_lowers_the_limits_until_it_is_undone(fake, job):
    granted = len(ALL)
    fake.wait_for_acknowledgement(fake.grant(ALL))
    until(job, f"{granted} {granted}")
    for _ in range(2):
        confine(job, FIRST)
        until(job, "1 1")
        assert job.is_on(FIRST)
        confine(job, ALL)
        until(job, f"{granted} {granted}")
        assert job.is_on(ALL)


@pytest.mark.slow
def test_never_more_than_is_granted(fake, job):
    fake.wait_for_acknowledgement(fake.grant(FIRST))
    until(job, "1 1")
    confine(job, ALL)
    time.sleep(1.2)  # Two looks.
    assert job.ask() == "1 1"
    confine(job, LAST)
    time.sleep(1.2)
    assert job.ask() == "1 1"


def test_a_thread_that_confines_itself_lowers_nothing(fake, job):
    granted = len(ALL)
    fake.wait_for_acknowledgement(fake.grant(ALL))
    until(job, f"{granted} {granted}")
    # As OpenMP does to the main thread with OMP_PROC_BIND.
    os.sched_setaffinity(job.pid, FIRST)
    time.sleep(1.2)
    assert job.ask() == f"{granted} {granted}"


def test_the_next_grant_counts(fake, job):
    granted = len(ALL)
    fake.wait_for_acknowledgement(fake.grant(ALL))
    confine(job, FIRST)
    until(job, "1 1")
    fake.wait_for_acknowledgement(fake.grant(LAST))
    assert job.is_on(LAST)
    fake.wait_for_acknowledgement(fake.grant(ALL))
    assert job.ask() == f"{granted} {granted}"


def test_limits_set_by_hand_are_left_alone(fake, job):
    fake.wait_for_acknowledgement(fake.grant(ALL))
    assert job.ask("3") == "3 3"
    time.sleep(1.2)
    assert job.ask() == "3 3"


def test_a_cpuset_that_is_made_smaller_lowers_the_limits(fake, job):
    try:
        group = cgroups.make(f"tfm-test-affinity-{os.getpid()}")
    except OSError:
        skip_without("cpu")
    granted = len(ALL)
    try:
        listed = ",".join(map(str, sorted(ALL)))
        group.set_cpus(listed)
        group.add(job.pid)
        fake.wait_for_acknowledgement(fake.grant(ALL))
        until(job, f"{granted} {granted}")
        group.set_cpus(str(min(ALL)))
        until(job, "1 1")
        group.set_cpus(listed)
        until(job, f"{granted} {granted}")
    finally:
        group.remove()
