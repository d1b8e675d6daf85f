# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Services with worker processes: each follows three grants, and ends as it does without us."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import started, tfm
from tests.support.controllers import ask, wait_for
from tests.support.jobs import has_ended

APPS = Path(__file__).parent / "apps"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs"),
]

SERVERS = {
    "gunicorn": ["gunicorn", "web:wsgi", "--bind", "unix:s.sock"],
    "gunicorn --preload": ["gunicorn", "--preload", "web:wsgi", "--bind", "unix:s.sock"],
    "gunicorn threads": ["gunicorn", "--threads", "2", "web:wsgi", "--bind", "unix:s.sock"],
    "uvicorn": ["uvicorn", "web:asgi", "--uds", "s.sock"],
}


@pytest.fixture
def app(tmp_path, monkeypatch):
    """A folder with the applications, which is also the working directory."""
    folder = tmp_path / "app"
    shutil.copytree(APPS, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TASKS_FOLDER", str(folder))
    return folder


def job(controller):
    (found,) = controller.get("/v1/jobs")["jobs"]
    return found


def follow(controller, threads):
    """Check that a program's limit follows grants, and that `actual` is true."""
    assert wait_for(threads) == len(job(controller)["actual"]) == 1
    for cores in (2, 1, 2):
        assert tfm("set", job(controller)["id"], str(cores)).returncode == 0
        wait_for(lambda n=cores: len(job(controller)["actual"]) == n)
        # What is actual has been applied.
        assert threads() == cores
    assert job(controller)["malleable"]
    assert job(controller)["confined"] is None


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_follows_grants(controller, app, name):
    program = [sys.executable, "-m", *SERVERS[name]]
    socket = app / "s.sock"

    def answer():
        try:
            status, said = ask(socket, "GET", "/")
        except OSError:
            return None
        assert status == 200
        return said

    command = ["run", "--preferred", "1", "--max", "2", "--", *program]
    with started(*command, cwd=app) as process:
        wait_for(answer)
        follow(controller, lambda: answer()["threads"])
        worker = answer()["pid"]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == code_without_us(program, app, answer)
    wait_for(lambda: has_ended(worker))
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])


def code_without_us(program, folder, answer):
    """Return the exit code of a program that gets the same signal without us."""
    (folder / "s.sock").unlink(missing_ok=True)
    stock = subprocess.Popen(
        program, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(answer)
        stock.send_signal(signal.SIGTERM)
        return stock.wait(60)
    finally:
        stock.kill()
        stock.wait()


def test_a_celery_worker_follows_grants(controller, app):
    def threads():
        code = "import tasks; print(tasks.limit.delay().get(timeout=60))"
        environment = {**os.environ, "TASKS_FOLDER": str(app)}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=app, env=environment, text=True, capture_output=True
        )
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    worker = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--concurrency", "1"]
    with started("run", "--preferred", "1", "--max", "2", "--", *worker, cwd=app) as process:
        follow(controller, threads)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 0
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])
