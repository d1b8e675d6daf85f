# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""examples/demo_containers.py: runs to its end, can be interrupted, leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import docker
import pytest
from docker_engine import NO_ENGINE

ROOT = Path(__file__).parents[2]
DEMO = [sys.executable, str(ROOT / "examples" / "demo_containers.py")]
PATIENCE = 400.0
TWO = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs to share out")


def demo(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != NO_ENGINE}
    return subprocess.run(
        [*DEMO, *map(str, arguments)],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def left_by_it(host: str) -> list[str]:
    """Return the demo's containers and images that an engine has."""
    client = docker.DockerClient(base_url=host)
    containers = client.containers.list(all=True, filters={"name": "demo-"})
    images = client.images.list("tf_malleable-demo")
    client.close()
    return [each.name for each in containers] + [each.id for each in images]


@TWO
def test_it_runs_to_its_end_and_leaves_nothing(docker_host, tmp_path):
    done = demo("--seconds", 2, "--out", tmp_path / "picture.png")
    assert (done.returncode, done.stderr) == (0, "")
    threads = [line.split()[-2] for line in done.stdout.splitlines() if line.startswith("--cpu")]
    most = str(len(os.sched_getaffinity(0)))
    assert threads == ["1", most, "1", most]
    for event in (
        "demo-second trains",
        "demo-first is paused",
        "tfm container stop demo-second",
        "demo-second has ended",
        "Picture: ",
    ):
        assert event in done.stdout
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert left_by_it(docker_host) == []


@TWO
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_it_leaves_nothing(docker_host, tmp_path, number):
    running = subprocess.Popen(
        [*DEMO, "--out", str(tmp_path / "picture.png")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    while "demo-by-hand trains" not in running.stdout.readline():
        assert running.poll() is None
    assert left_by_it(docker_host)
    running.send_signal(number)
    _, err = running.communicate(timeout=PATIENCE)
    assert (running.returncode, err) == (130, "\ndemo-containers: interrupted\n")
    assert left_by_it(docker_host) == []


@TWO
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--seconds", "0"], "--seconds must be a number from 2 to 60, not 0"),
        (["--seconds", "nan"], "--seconds must be a number from 2 to 60, not nan"),
        (["--seconds", "long"], "argument --seconds: invalid float value: 'long'"),
        (["--out", "picture.txt"], "--out must be a file .png or .svg, not 'picture.txt'"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(arguments, sentence):
    done = demo(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"demo-containers: {sentence}\n"


@TWO
def test_without_an_engine_a_sentence_says_so(tmp_path):
    out = ("--out", tmp_path / "picture.png")
    done = demo(*out, **{NO_ENGINE: "dockerd must be run as root"})
    sentence = "demo-containers: there is no container engine: dockerd must be run as root\n"
    assert (done.returncode, done.stderr) == (1, sentence)
    host = f"unix://{tmp_path}/none.sock"
    done = demo(*out, DOCKER_HOST=host)
    assert done.returncode == 1
    assert done.stderr.startswith(f"demo-containers: no container engine answers at {host}")
    assert len(done.stderr.splitlines()) == 1


SILENT = """
from container_picture import Sample
from container_stage import Phase, Training
from demo import DemoError

training = Training.__new__(Training)
training.name, training.log, training.samples = "demo-by-hand", "demo.log", [Sample(1.0, 2, 5.0)]
print(training.last_in(Phase("early", 0.0, 1.5)).threads)
try:
    training.last_in(Phase("late", 2.0, 4.0))
except DemoError as error:
    print(error)
"""

NOT_YET_STARTED = """
import sys
import time
from pathlib import Path

import docker
from container_stage import Training

name, log = sys.argv[1:]
training = Training(name, Path(log), time.monotonic)
time.sleep(1.0)
print(training.has_ended)
docker.from_env().api.start(name)
training._reader.join(60.0)
print(Path(log).read_text())
"""


def staged(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT / "examples"), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_a_training_prints_is_read_though_it_has_not_started_yet(containers, tmp_path):
    name = containers.name("early")
    containers.client.containers.create(
        containers.image,
        ["-c", "echo begun"],
        entrypoint="/bin/sh",
        name=name,
        volumes=containers.volumes,
        network_mode="none",
    )
    done = staged(NOT_YET_STARTED, name, tmp_path / "log")
    assert (done.stdout, done.stderr) == ("False\nbegun\n\n", "")


def test_a_training_that_prints_nothing_is_said_to():
    done = staged(SILENT)
    assert done.stderr == ""
    assert done.stdout == "2\ndemo-by-hand printed nothing for 2 s, see demo.log\n"
