# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Wrappers that change the environment of the program that they run: it stays malleable."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.commands import started, tfm
from tests.support.jobs import has_ended
from tests.support.programs import (
    ENDS,
    await_report,
    ended_by,
    family,
    follow_reports,
    job,
    stock_end,
    wait_for,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs"),
]

BESIDE = ("run", "--preferred", "1", "--max", "2", "--")


def test_what_opentelemetry_instruments_follows_grants(controller, app):
    exporters = [f"--{kind}_exporter=none" for kind in ("traces", "metrics", "logs")]
    instrument = str(Path(sys.executable).parent / "opentelemetry-instrument")
    command = [instrument, *exporters, sys.executable, "instrumented.py"]
    with started(*BESIDE, *command, cwd=app) as process:
        follow_reports(controller, process, lambda cores: ["sdk", cores])
        code = ended_by(process, signal.SIGTERM)
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])
    assert code == stock_end(command, app, lambda stock: await_report(stock, ["sdk", None]))


@pytest.fixture
def environment(app):
    """A conda environment that has the packages of this Python's, and an activation script."""
    prefix = app / "environment"
    prefix.mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        if (Path(sys.prefix) / name).exists():
            (prefix / name).symlink_to(Path(sys.prefix) / name)
    scripts = prefix / "etc" / "conda" / "activate.d"
    scripts.mkdir(parents=True)
    (scripts / "variables.sh").write_text('export PYTHONPATH="$CONDA_PREFIX/modules"\n')
    return str(prefix)


def test_what_conda_runs_follows_grants(controller, app, environment):
    program = [environment, "--no-capture-output", "python", "activated.py"]
    command = [sys.executable, "conda_run.py", *program]
    with started(*BESIDE, *command, cwd=app) as process:
        follow_reports(controller, process, lambda cores: [environment, cores])
        members = family(process.pid)
        # `conda run` passes no signal on: what it has started goes on without it.
        process.send_signal(signal.SIGTERM)
        process.wait(ENDS)
        left = wait_for(lambda: job(controller)["reason"])
        assert left.startswith(f"its main process was ended by signal {signal.SIGTERM:d}; ")
        assert not all(map(has_ended, members))
        assert tfm("cancel", job(controller)["id"]).returncode == 0
    wait_for(lambda: all(map(has_ended, members)))
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])


def test_conda_captures_the_output_and_passes_the_exit_code_on(controller, app, environment):
    code = "import sys, limits; print(limits.limit()); sys.exit(3)"
    command = [sys.executable, "conda_run.py", environment, "python", "-c", code]
    done = tfm("run", "--max", "1", "--", *command, cwd=app)
    assert (done.returncode, done.stdout) == (3, "1\n"), done.stderr
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])
