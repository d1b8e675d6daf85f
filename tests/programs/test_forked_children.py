# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Children that a program forks after it has imported TensorFlow, as gunicorn --preload does."""

from __future__ import annotations

import os
import sys

import pytest

from tests.support.commands import started, tfm
from tests.support.programs import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs"),
]

FORK = """
import os, sys, time
import tensorflow as tf
import tf_malleable as tfm

if os.fork():
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
tf.constant(1.0) + 1
LOOP
"""
POOL = """
import multiprocessing, sys, time
import tensorflow as tf
import tf_malleable as tfm

def serve():
    tf.constant(1.0) + 1
    INDENTED

if __name__ == "__main__":
    child = multiprocessing.get_context("METHOD").Process(target=serve)
    child.start()
    child.join()
"""
LOOP = """print("ready", flush=True)
before = None
while True:
    now = tfm.get_threads().intra
    if now != before:
        print(now, flush=True)
    before = now
    time.sleep(0.02)
"""


def program(kind: str) -> str:
    if kind == "os.fork":
        return FORK.replace("LOOP", LOOP)
    return POOL.replace("INDENTED", LOOP.replace("\n", "\n    ")).replace("METHOD", kind)


@pytest.mark.parametrize("kind", ["os.fork", "fork", "spawn", "forkserver"])
def test_a_child_follows_grants(controller, tmp_path, kind):
    script = tmp_path / "serve.py"
    script.write_text(program(kind))
    with started("run", "--preferred", "1", "--max", "2", "--", sys.executable, script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        assert process.stdout.readline() == "1\n"
        (job,) = controller.get("/v1/jobs")["jobs"]
        for cores in (2, 1, 2):
            assert tfm("set", job["id"], str(cores)).returncode == 0
            assert process.stdout.readline() == f"{cores}\n"
            wait_for(lambda n=cores: len(controller.get("/v1/jobs")["jobs"][0]["actual"]) == n)
        assert tfm("cancel", job["id"]).returncode == 0
