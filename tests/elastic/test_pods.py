# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Workers that variables of the environment make, as in pods."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.support import cgroups
from tests.support.cgroup_probe import skip_without
from tests.support.commands import tfm
from tests.support.deadline import DEADLINE
from tests.support.elastic_runs import ElasticRun, freeze, thaw, wait_until
from tests.support.pid_namespaces import needs_namespaces
from tf_malleable.elastic.settings import SECRET

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_workers_by_variables_are_seen_from_elsewhere_and_say_that_they_leave(tmp_path):
    with ElasticRun(tmp_path) as run:
        run.start_pod(PLACE="digits-worker-0")
        run.wait_for_members(1)
        second = run.start_pod(PLACE="digits-worker-1", SEED="7")
        run.wait_for_members(2)
        wait_until(lambda: run.status()["steps_per_second"], lambda: str(run.status()))
        env = {**os.environ, SECRET: run.secret.hex()}
        words = ["elastic", "status", "--coordinator", run.where]
        found = json.loads(tfm(*words, "--json", env=env).stdout)
        places = [each["place"] for each in found["processes"]]
        assert places == ["digits-worker-0", "digits-worker-1"]
        run.start_server("a server")
        wait_until(lambda: [p["place"] for p in run.in_training("server")] == ["a server"], str)
        assert (found["generation"], found["steps_total"]) == (2, None)
        assert found["steps_done"] == found["step"] > 0
        assert 0 < found["steps_per_second"] < 250  # A shard takes 4 ms at least.
        assert [each["reason"] for each in found["rescales"]] == ["start", "join"]
        assert "steps/s, 4 shards" in tfm(*words, env=env).stdout
        second.terminate()
        assert second.wait(DEADLINE) == 83
        run.finish()
        assert run.workers[0].wait(DEADLINE) == 0


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU only")
def test_the_coordinator_hears_of_other_cpus(tmp_path):
    with ElasticRun(tmp_path) as run:
        worker = run.start_pod()
        run.wait_for_members(1)
        for cpus in (1, 2):
            os.sched_setaffinity(worker.pid, sorted(os.sched_getaffinity(0))[:cpus])
            wait_until(
                lambda cpus=cpus: [each["cpus"] for each in run.in_training()] == [cpus],
                lambda: str(run.status()),
            )
        run.finish()


def test_the_coordinator_hears_that_a_pod_was_resized(tmp_path):
    try:
        pod = cgroups.make(f"tf_malleable-pod-{os.getpid()}")
    except OSError:
        skip_without("cpu")
    try:
        with ElasticRun(tmp_path) as run:
            worker = run.start_pod()
            pod.set_quota(1)
            pod.add(worker.pid)
            run.wait_for_members(1)
            for cpus in (1, 0.5):
                pod.set_quota(cpus)
                wait_until(
                    lambda cpus=cpus: [each["cpus"] for each in run.in_training()] == [cpus],
                    lambda: str(run.status()),
                )
            run.finish()
    finally:
        pod.remove()


def test_a_worker_may_start_long_before_its_coordinator(tmp_path):
    with ElasticRun(tmp_path) as run:
        run.coordinator.kill()
        run.coordinator.wait()
        run.start_pod()
        wait_until(lambda: "tries again and again" in run.said(), str)
        run.start_coordinator("--fresh")
        run.wait_for_members(1)
        run.finish()


@needs_namespaces
@pytest.mark.parametrize("moment", ["importing", "waiting", "training"])
def test_a_worker_that_is_a_containers_first_process_leaves_at_any_moment(tmp_path, moment):
    with ElasticRun(tmp_path) as run:
        run.start_pod()
        run.wait_for_members(1)
        # Nobody answers at port 9, so that the worker waits for its coordinator.
        more = {"COORDINATOR": "127.0.0.1:9"} if moment == "waiting" else {}
        with run.start_container(PLACE="first", **more) as worker:
            first = worker.first()
            init = Path(f"/proc/{first}/comm")
            wait_until(lambda: init.read_text() == "tfm-init\n", run.said)
            if moment == "waiting":
                wait_until(lambda: "tries again and again" in run.said(), run.said)
            if moment == "training":
                run.wait_for_members(2)
            os.kill(first, signal.SIGTERM)
            assert worker.end() == (83 if moment == "training" else 128 + signal.SIGTERM)
        run.wait_for_members(1)
        run.finish()


def test_a_coordinator_that_restarts_reports_no_speed_from_before(tmp_path):
    with ElasticRun(tmp_path) as run:
        run.start_server()
        run.start_pod()
        run.wait_for_members(1)
        run.wait_for_members(1, "server")
        run.wait_for_step(300)
        (worker,) = run.pids()
        run.coordinator.kill()
        freeze(worker)
        run.start_coordinator("--resume")
        # Servers do not know at which step the training is.
        wait_until(lambda: len(run.status().get("processes", [])) == 1, str)
        time.sleep(0.5)
        thaw(worker)
        rates = []

        def has_reported():
            status = run.status()
            rates.append(status.get("steps_per_second") or 0.0)
            return len(set(rates)) > 6 and status["phase"] == "steady"

        wait_until(has_reported, lambda: str(rates))
        # A shard takes 4 ms at least. A worker reports each quarter of a second, so that the rate
        # of one second may count the steps of two more.
        assert max(rates) < 1.5 * 250 / 4
        run.finish()
