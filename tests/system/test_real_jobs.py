# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The main job: unmodified Keras trainings, a controller, and what may befall both."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.controllers import TFM, Controller
from tf_malleable.api.transport.connection import Connection

PATIENCE = 120.0

TRAINING = """
import sys
import keras
import numpy as np

layers = keras.layers
model = keras.Sequential([layers.Input((256,)), layers.Dense(512), layers.Dense(4)])
model.compile(optimizer="sgd", loss="mse", jit_compile=False)
images = np.random.rand(64 * 200, 256).astype("float32")
model.fit(images, images[:, :4], batch_size=64, epochs=int(sys.argv[1]), verbose=0)
print("trained", int(model.optimizer.iterations))
"""
FOR_EVER = "1000000"
# By default a training that was seen to be faster with one core is left with one, as this
# small one is on some machines.
POLICY = ("--policy", "equal")


class System:
    """A controller and what runs under it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = directory / "run" / "controller.sock"
        self.script = directory / "train.py"
        self.script.write_text(TRAINING)
        self.connection = Connection(self.socket)
        self.jobs: list[subprocess.Popen[str]] = []
        self.controller = self.start_controller()

    def start_controller(self) -> subprocess.Popen[str]:
        self.controller = Controller(self.directory, *POLICY).process
        return self.controller

    def train(self, name: str, epochs: str = FOR_EVER, *options: str) -> subprocess.Popen[str]:
        command = [TFM, "run", "--name", name, *options, "--", sys.executable, str(self.script)]
        env = {
            **os.environ,
            "TF_MALLEABLE_SOCKET": str(self.socket),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        self.jobs.append(
            subprocess.Popen(
                [*command, epochs],
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        return self.jobs[-1]

    def ask(self, method: str, path: str, body: object = None) -> Any:
        return self.connection.request(method, path, body)

    def status(self, name: str) -> dict[str, Any]:
        found = [job for job in self.ask("GET", "/v1/jobs")["jobs"] if job["name"] == name]
        return found[0] if found else {}

    def until(self, condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, json.dumps(self.ask("GET", "/v1/jobs"))
            time.sleep(0.02)
        return found

    def training(self, name: str) -> dict[str, Any]:
        """Wait until a job takes steps and has acknowledged its grant."""

        def trains() -> dict[str, Any]:
            job = self.status(name)
            steps = job.get("steps_per_second")
            return job if steps and job["malleable"] and job["actual"] == job["granted"] else {}

        return self.until(trains)

    def end(self) -> None:
        self.connection.close()
        for job in self.jobs:
            with suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.communicate()
        self.controller.kill()
        self.controller.communicate()


@contextmanager
def running(directory: Path) -> Iterator[System]:
    system = System(directory)
    try:
        yield system
    finally:
        system.end()


@pytest.fixture
def system(tmp_path):
    with running(tmp_path) as found:
        yield found


def masks(pid: int) -> set[frozenset[int]]:
    """Return the affinity masks of all threads of a process."""
    found = set()
    for thread in os.listdir(f"/proc/{pid}/task"):
        with suppress(ProcessLookupError):  # It may end in between.
            found.add(frozenset(os.sched_getaffinity(int(thread))))
    return found


@pytest.mark.slow
def test_unmodified_trainings_share_the_machine_and_report_steps(system):
    cpus = sorted(os.sched_getaffinity(0))
    first = system.train("first")
    assert system.training("first")["granted"] == cpus
    finite = system.train("second", "3")
    assert finite.wait(PATIENCE) == 0
    assert finite.stdout.read() == "trained 600\n"
    job = system.until(lambda: (j := system.status("first"))["actual"] == cpus and j)
    system.until(lambda: masks(first.pid) == {frozenset(cpus)})
    assert job["resizes"] >= 2 or len(cpus) < 2
    history = system.ask("GET", "/v1/history?spans=true")
    assert [(e["name"], e["outcome"], e["exit_code"], e["steps"]) for e in history["jobs"]] == [
        ("second", "finished", 0, 600)
    ]
    assert {span["job"] for span in history["spans"] if span["cpus"]} == {"1", "2"}
    for one, other in itertools.combinations(history["spans"], 2):
        if one["begin"] < other["end"] and other["begin"] < one["end"]:
            assert not {*one["cpus"]} & {*other["cpus"]}


@pytest.mark.slow
def test_a_training_is_resized_paused_and_resumed_by_hand(system):
    process = system.train("one")
    job = system.training("one")["id"]
    system.ask("PUT", f"/v1/jobs/{job}/cores", {"cores": 1})
    small = system.until(lambda: len((j := system.status("one"))["actual"]) == 1 and j)
    # The agent's own thread moves last, once it has said that the others have.
    system.until(lambda: masks(process.pid) == {frozenset(small["granted"])})
    system.ask("POST", f"/v1/jobs/{job}/pause")
    steps = system.until(lambda: system.status("one")["state"] == "paused" and system.status("one"))
    time.sleep(1.5)
    assert system.status("one")["steps_done"] == steps["steps_done"]
    system.ask("POST", f"/v1/jobs/{job}/resume")
    system.until(lambda: system.status("one")["steps_done"] > steps["steps_done"])
    assert system.status("one")["paused_seconds"] > 1


@pytest.mark.serial("measures for how long a core is free")
def test_a_killed_training_gives_its_cores_to_another_within_a_second(system):
    victim = system.train("victim")
    system.training("victim")
    system.train("heir")
    system.training("heir")
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait()
    cpus = sorted(os.sched_getaffinity(0))
    system.until(lambda: system.status("heir")["granted"] == cpus, seconds=1.0)
    system.until(lambda: system.status("heir")["actual"] == cpus)


@pytest.mark.slow
def test_trainings_go_on_without_the_controller_and_are_known_to_the_next(system):
    process = system.train("first")
    before = system.training("first")
    waiting = system.train("waiting", "1", "--min", str(len(before["granted"])))
    system.until(lambda: system.status("waiting").get("state") == "waiting")
    system.controller.kill()
    system.controller.communicate()
    time.sleep(2.0)
    assert process.poll() is None
    assert waiting.poll() is None
    system.start_controller()
    after = system.status("first")
    for same in ("id", "pid", "granted", "started", "submitted"):
        assert after[same] == before[same]
    later = system.training("first")
    assert later["steps_done"] > before["steps_done"]
    assert later["granted"] == before["granted"]
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert waiting.wait(PATIENCE) == 0
    assert re.fullmatch(r"trained \d+\n", waiting.stdout.read())


@pytest.mark.slow
def test_a_training_that_began_alone_joins_a_controller_that_comes_later(system):
    system.controller.kill()
    system.controller.communicate()
    process = system.train("alone")
    assert process.stderr is not None
    assert (
        process.stderr.readline()
        == f"tfm: no controller answers at {system.socket}, running alone\n"
    )
    time.sleep(5.0)
    system.start_controller()
    joined = system.training("alone")
    assert joined["pid"] == process.pid
