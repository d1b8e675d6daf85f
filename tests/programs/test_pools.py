# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Programs without Python: `tfm show` tells how their threads follow the job's cores."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.support.commands import started, tfm
from tests.support.openmp import COMPILER, NEEDED, Teams, compiled
from tests.support.programs import job, wait_for

pytestmark = [*NEEDED, pytest.mark.slow]
HOST_CPUS = os.cpu_count()
# Two threads, and no library that is loaded when it starts.
STATIC = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void* idle(void* nothing) { return pause(), nothing; }
int main(void) {
  pthread_t thread;
  pthread_create(&thread, 0, idle, 0);
  puts("ready");
  fflush(stdout);
  return pause();
}
"""


def test_teams_of_a_program_in_c_follow_from_operation_to_operation(controller, tmp_path):
    with Teams(compiled(tmp_path), options=("--preferred", "2", "--max", "2")) as teams:
        assert teams.answer(0) == 2
        found = wait_for(lambda: job(controller)["pools"])
        assert found == [
            {
                "name": "libgomp",
                "follows": "at op boundaries",
                "limit": 2,
                "capacity": HOST_CPUS,
                "pids": [teams.process.pid],
            }
        ]
        assert tfm("set", job(controller)["id"], "1").returncode == 0
        wait_for(lambda: job(controller)["pools"][0]["limit"] == 1)
        wait_for(lambda: teams.answer(0) == 1)
        shown = tfm("show", job(controller)["id"]).stdout.splitlines()
        expected = f"at op boundaries, 1 of {HOST_CPUS} threads (process {teams.process.pid})"
        assert [line.split(maxsplit=1) for line in shown if line.startswith("pool ")] == [
            ["pool", f"libgomp: {expected}"]
        ]


@pytest.mark.parametrize("said", [{"OMP_PROC_BIND": "true"}, {"TF_MALLEABLE_OPENMP": "0"}])
def test_teams_that_do_not_follow_are_said_to_be_confined_only(controller, tmp_path, said):
    with Teams(compiled(tmp_path), options=("--max", "1"), **said) as teams:
        assert teams.answer(1) == 1
        (pool,) = wait_for(lambda: job(controller)["pools"])
        assert (pool["name"], pool["follows"]) == ("libgomp", "confined only")
        assert pool["limit"] is pool["capacity"] is None
        shown = f"libgomp: confined only (process {teams.process.pid})"
        assert shown in tfm("show", job(controller)["id"]).stdout


def test_so_are_threads_of_a_statically_linked_program(controller, tmp_path):
    source, program = tmp_path / "idle.c", tmp_path / "idle"
    source.write_text(STATIC)
    subprocess.run([COMPILER, "-static", "-pthread", "-o", program, source], check=True)
    with started("run", "--max", "1", "--", str(program)) as process:
        assert process.stdout.readline() == "ready\n"
        (pool,) = wait_for(lambda: job(controller)["pools"])
        assert (pool["name"], pool["follows"]) == ("a statically linked program", "confined only")
        assert pool["pids"] == [process.pid]
