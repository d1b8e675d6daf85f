# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Two controllers on one host: the second one shares out other CPUs, or none."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.support.controllers import TFM, controller
from tests.support.deadline import DEADLINE
from tf_malleable.linux import cpu_claims

CPUS = sorted(os.sched_getaffinity(0))


@pytest.fixture
def environment(tmp_path):
    return {**os.environ, cpu_claims.VARIABLE: str(tmp_path / "claims")}


def second(directory, environment, *options):
    places = ["--socket", directory / "second" / "controller.sock", "--state", directory / "two.db"]
    return subprocess.run(
        [TFM, "controller", *places, *options],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        env=environment,
    )


def test_a_second_one_for_the_same_cpus_refuses_and_names_the_first(tmp_path, environment):
    cpu = str(CPUS[0])
    with controller(tmp_path, "--cpus", cpu, env=environment) as first:
        result = second(tmp_path, environment, "--cpus", cpu)
        assert result.returncode == 1
        assert f"(pid {first.pid}) already shares out CPUs {cpu}" in result.stderr
        assert f"listens at {first.socket}" in result.stderr
        assert len(result.stderr.splitlines()) == 1
        # It has left no socket behind that clients would find.
        assert not (tmp_path / "second" / "controller.sock").exists()
        assert first.get("/v1")["pid"] == first.pid


def test_after_a_kill_the_next_one_starts(tmp_path, environment):
    with controller(tmp_path, env=environment) as first:
        first.process.kill()
        first.process.wait(DEADLINE)
        with controller(tmp_path, env=environment) as next_one:
            assert next_one.get("/v1")["pid"] == next_one.pid


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_each_has_cpus_of_its_own(tmp_path, environment):
    (tmp_path / "other").mkdir()
    with (
        controller(tmp_path, "--cpus", str(CPUS[0]), env=environment),
        controller(tmp_path / "other", "--cpus", str(CPUS[1]), env=environment) as two,
    ):
        assert [cpu["id"] for cpu in two.get("/v1")["cpus"]] == [CPUS[1]]
