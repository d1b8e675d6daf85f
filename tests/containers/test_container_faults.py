# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What can happen to containers, their controller and their engine: cores come back."""

from __future__ import annotations

import os
import signal
import time

import docker
import pytest
from dockerd import DockerEngine
from make_test_image import make_test_image, volumes

from tests.support import controllers
from tests.support.containers import BUSY, SLEEP, Containers
from tests.support.controllers import wait_for

CPUS = sorted(os.sched_getaffinity(0))
TWO = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs to share out")
ONE = ("--cpus", str(CPUS[0]), "--policy", "fcfs-strict")
BOTH = ("--cpus", ",".join(map(str, CPUS[:2])), "--policy", "equal")

# From an end to the cores' return; the issue of this is that it does not take the
# engine's word or a look each second, so a machine under load has some more.
BACK_SECONDS = 1.0


class Waiting:
    """A container that runs, and one that waits for its core."""

    def __init__(self, containers: Containers) -> None:
        self.containers = containers
        self.first = containers.start("first", "--max", "1")
        containers.actual(first=1)
        self.second = containers.start("second", "--max", "1")
        containers.until(self.second, state="waiting")

    def seconds_to_grant(self, act) -> float:
        """Return how long after an act the second is granted the core."""
        act()
        begin = time.monotonic()
        self.containers.until(self.second, state="running")
        return time.monotonic() - begin


@pytest.mark.parametrize("way", ["kill", "remove", "stop", "pid"])
def test_cores_of_one_that_ends_come_back(containers, way):
    with containers.controller(*ONE):
        both = Waiting(containers)
        client = containers.client.api
        acts = {
            "kill": lambda: client.kill(both.first),
            "remove": lambda: client.remove_container(both.first, force=True),
            "stop": lambda: client.stop(both.first),
            "pid": lambda: os.kill(containers.jobs()[both.first]["pid"], signal.SIGKILL),
        }
        assert both.seconds_to_grant(acts[way]) <= BACK_SECONDS
        containers.actual(second=1)
        (record,) = containers.ended(1)
        assert record["exit_code"] == (0 if way == "stop" else 137)


def test_one_that_is_paused_behind_our_back_has_no_cores_meanwhile(containers):
    with containers.controller(*ONE):
        both = Waiting(containers)
        assert both.seconds_to_grant(lambda: containers.client.api.pause(both.first)) <= 1.0
        assert containers.jobs()[both.first]["stopped"]
        containers.actual(second=1)
        containers.client.api.kill(both.second)
        containers.client.api.unpause(both.first)
        containers.actual(first=1)
        assert not containers.kernel(both.first).frozen


def test_one_that_runs_out_of_memory_has_failed(containers):
    with containers.controller(*ONE):
        script = "exec python -c 'x = bytearray(1 << 30)'"
        done = containers.run("--rm", "--max", "1", "-m", "64m", script=script)
        assert done.returncode == 137
        (record,) = containers.ended(1)
        assert (record["outcome"], record["exit_code"]) == ("failed", 137)


def test_one_that_waits_and_is_removed_is_cancelled(containers):
    with containers.controller(*ONE):
        both = Waiting(containers)
        containers.client.api.remove_container(both.second)
        wait_for(lambda: both.second not in containers.jobs())
        assert containers.ended(1)[0]["outcome"] == "cancelled"


@TWO
def test_what_others_change_is_put_right(containers):
    with containers.controller(*BOTH):
        one = containers.start("one", script=BUSY)
        containers.start("two", script=BUSY)
        granted = frozenset(containers.actual(one=1, two=1)[one]["granted"])
        containers.client.api.update_container(one, cpuset_cpus=f"{CPUS[0]},{CPUS[1]}")
        wait_for(lambda: containers.kernel(one).cpus == granted)
        containers.tfm("container", "pause", one)
        # The engine is told soon, not before the command ends.
        wait_for(lambda: containers.inspect(one)["State"]["Paused"])
        containers.client.api.unpause(one)
        wait_for(lambda: containers.kernel(one).frozen)


@TWO
def test_containers_outlive_a_killed_controller_and_are_taken_up_again(containers):
    with containers.controller(*ONE) as controller:
        both = Waiting(containers)
        before = containers.jobs()
        controller.process.kill()
        controller.process.wait()
        assert containers.inspect(both.first)["State"]["Running"]
    with containers.controller(*ONE):
        after = containers.jobs()
        for name, state in ((both.first, "running"), (both.second, "waiting")):
            for field in ("id", "pid", "submitted", "started", "name"):
                assert after[name][field] == before[name][field]
            assert after[name]["state"] == state
        containers.actual(first=1)
        containers.tfm("container", "stop", both.first)
        containers.actual(second=1)
        assert containers.inspect(both.second)["RestartCount"] == 0
    # One that ended, one that was made and one that was removed while there was none.
    containers.client.api.kill(both.second)
    script = "echo alone; " + SLEEP
    third = containers.popen("--max", "1", "--name", containers.name("third"), script=script)
    assert third.stdout is not None
    assert third.stdout.readline() == "alone\n"
    with containers.controller(*ONE):
        containers.actual(third=1)
        assert list(containers.jobs()) == [containers.name("third")]
        containers.tfm("container", "stop", containers.name("third"))
        third.communicate(timeout=controllers.DEADLINE)
        assert third.returncode == 0


@TWO
def test_how_one_ended_while_there_was_no_controller_is_known_to_its_engine(containers):
    with containers.controller(*BOTH) as controller:
        failing = containers.start("failing")
        removed = containers.start("removed", "--rm")
        containers.actual(failing=1, removed=1)
        # What happens is on file 20 ms later.
        time.sleep(0.5)
        controller.process.kill()
        controller.process.wait()
    for name in (failing, removed):
        containers.client.api.kill(name)
    wait_for(lambda: containers.names() == [failing])
    with containers.controller(*BOTH):
        outcomes = [(each["outcome"], each["exit_code"]) for each in containers.ended(2)]
        assert outcomes == [("failed", 137), ("unknown", None)]
        assert containers.jobs() == {}


def test_a_controller_that_ends_lets_paused_containers_go_on(containers):
    with containers.controller(*ONE) as controller:
        name = containers.start("one", "--max", "1")
        containers.tfm("container", "pause", name)
        wait_for(lambda: containers.kernel(name).frozen)
        # Another one that comes must not make it forgotten.
        containers.start("two", "--max", "1")
        containers.actual(two=1)
        assert controller.stop()[0] == 0
        assert not containers.kernel(name).frozen


@pytest.fixture
def own_engine(docker_host, tmp_path_factory):
    """An engine that may be killed; docker_host says whether there can be any."""

    def start(live_restore):
        engine = DockerEngine(tmp_path_factory.mktemp("e"), live_restore=live_restore)
        engines.append(engine)
        engine.start()
        return engine

    engines: list[DockerEngine] = []
    yield start
    for engine in engines:
        engine.stop()


def in_engine(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    client = docker.DockerClient(base_url=engine.host)
    image = make_test_image(client)
    client.close()
    return Containers(engine.host, image, volumes(), tmp_path)


@TWO
def test_an_engine_that_is_gone_for_ten_seconds(own_engine, tmp_path, monkeypatch):
    engine = own_engine(live_restore=True)
    containers = in_engine(engine, tmp_path, monkeypatch)
    with containers.controller(*BOTH):
        one = containers.start("one", script=BUSY)
        two = containers.start("two", script=BUSY)
        containers.actual(one=1, two=1)
        before = containers.jobs()
        engine.kill()
        gone = time.monotonic()
        said = containers.run("--max", "1")
        assert (said.returncode, "no container engine answers" in said.stderr) == (125, True)
        # Nobody has to ask the engine to know that one has ended.
        os.kill(before[two]["pid"], signal.SIGKILL)
        wait_for(lambda: two not in containers.jobs())
        # Nor to give its CPUs to another.
        containers.actual(one=2)
        assert containers.kernel_of(before[one]["pid"]).cpus == frozenset(CPUS[:2])
        time.sleep(max(0.0, gone + 10 - time.monotonic()))
        engine.restart()
        containers.actual(one=2)
        assert containers.kernel(one).cpus == frozenset(CPUS[:2])
        assert containers.jobs()[one]["pid"] == before[one]["pid"]
        three = containers.start("three", script=BUSY)
        containers.actual(one=1, three=1)
        assert len(containers.ended(1)) == 1
        assert containers.names() == sorted([one, two, three])


def test_containers_that_end_with_their_engine(own_engine, tmp_path, monkeypatch):
    engine = own_engine(live_restore=False)
    containers = in_engine(engine, tmp_path, monkeypatch)
    with containers.controller(*ONE) as controller:
        both = Waiting(containers)
        running = containers.popen("--max", "1", "--name", containers.name("third"))
        containers.until(containers.name("third"), state="waiting")
        engine.restart()
        wait_for(lambda: both.first not in containers.jobs())
        containers.actual(second=1)
        stopped = containers.tfm("container", "stop", both.second)
        assert stopped.returncode == 0, stopped.stderr
        containers.actual(third=1)
        stopped = containers.tfm("container", "stop", containers.name("third"))
        assert stopped.returncode == 0, stopped.stderr
        running.communicate(timeout=controllers.DEADLINE)
        assert running.returncode == 0
        assert [record["outcome"] for record in containers.ended(3)] != []
        assert controller.get("/v1/jobs")["jobs"] == []


def test_one_that_was_paused_before_it_became_a_job_stays_so(containers):
    labels = {"tf_malleable.job": "x", "tf_malleable.socket": str(containers.socket)}
    name = containers.name("frozen")
    containers.client.containers.run(
        containers.image,
        ["-c", SLEEP],
        entrypoint="/bin/sh",
        name=name,
        labels=labels,
        volumes=containers.volumes,
        detach=True,
    )
    containers.client.api.pause(name)
    with containers.controller(*ONE):
        containers.until(name, stopped=True)
        assert containers.kernel(name).frozen
        containers.client.api.unpause(name)
        containers.actual(frozen=1)


def test_a_controller_without_the_sdk_lets_containers_be(containers, tmp_path):
    with containers.controller(*ONE) as controller:
        name = containers.start("one", "--max", "1")
        containers.actual(one=1)
        controller.process.kill()
        controller.process.wait()
    # As where the SDK is not installed.
    (tmp_path / "docker.py").write_text("raise ImportError\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with controllers.controller(tmp_path, *ONE, env=env) as controller:
        assert controller.get("/v1/jobs")["jobs"] == []
        status, answer = controller.ask("POST", "/v1/containers", {"container": name})
        assert status == 409
        assert "pip install docker" in answer["error"]
        assert containers.inspect(name)["State"]["Running"]
