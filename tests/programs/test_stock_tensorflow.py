# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Programs whose TensorFlow cannot be made malleable: everyone is told."""

from __future__ import annotations

import shlex
import sys

import pytest

from tests.support.commands import started, tfm
from tests.support.programs import wait_for

PYTHON = shlex.quote(sys.executable)
COMPUTES = (
    "import tensorflow as tf, time; tf.constant(1.0) + 1; print('ready', flush=True);"
    " time.sleep(600)"
)


def beside(folder, version="2.99.0"):
    """Write a package that looks like a TensorFlow that is not supported."""
    (folder / "tensorflow").mkdir()
    (folder / "tensorflow" / "__init__.py").write_text("print('stock')\n")
    (folder / f"tensorflow-{version}.dist-info").mkdir()
    return str(folder)


@pytest.mark.slow
def test_a_cleared_environment_is_shown_as_confined(controller):
    script = f'exec env -i {PYTHON} -c "{COMPUTES}"'
    with started("run", "--max", "1", "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.stderr.read()

        def job():
            return controller.get("/v1/jobs")["jobs"][0]

        said = wait_for(lambda: job()["confined"])
        assert said.startswith(f"TensorFlow in process {process.pid} is not malleable")
        assert not job()["malleable"]
        assert "1 confined" in tfm("jobs").stdout
        assert said in " ".join(tfm("show", job()["id"]).stdout.split())
    _, log = controller.stop()
    assert f"TensorFlow in process {process.pid} is not malleable" in log


@pytest.mark.slow
def test_a_malleable_job_is_not_shown_as_confined(controller):
    with started("run", "--max", "1", "--", sys.executable, "-c", COMPUTES) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        wait_for(lambda: controller.get("/v1/jobs")["jobs"][0]["run_seconds"] > 4)
        (job,) = controller.get("/v1/jobs")["jobs"]
        assert (job["malleable"], job["confined"]) == (True, None)


@pytest.mark.parametrize(
    "command",
    [["--help"], ["run", "--", "echo", "hello"], ["simulate", "--help"], ["policy", "-h"]],
)
def test_commands_work_beside_any_tensorflow(tmp_path, monkeypatch, command):
    monkeypatch.setenv("PYTHONPATH", beside(tmp_path))
    done = tfm(*command)
    assert done.returncode == 0, done.stderr
    assert "2.99" not in done.stderr


def test_an_unsupported_tensorflow_runs_as_stock_unless_that_is_forbidden(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", beside(tmp_path))
    program = ["--", sys.executable, "-c", "import tensorflow"]
    done = tfm("run", "--threads", "1", *program)
    assert (done.returncode, done.stdout) == (0, "stock\n")
    assert done.stderr.startswith("tfm run: not malleable here: TensorFlow 2.99.0 is installed")
    done = tfm("run", "--threads", "1", "--require-malleable", *program)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("tfm run: not malleable here: TensorFlow 2.99.0 is installed")
    assert len(done.stderr.splitlines()) == 1
