# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Services with worker processes: each follows three grants, and ends as it does without us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.support.commands import started
from tests.support.controllers import ask
from tests.support.programs import ended_by, follow, stock_end, wait_for

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
        code = ended_by(process, signal.SIGTERM)
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])
    socket.unlink(missing_ok=True)
    assert code == stock_end(program, app, lambda stock: wait_for(answer))


def test_a_celery_worker_follows_grants(controller, app):
    def threads():
        code = "import tasks; print(tasks.limit.delay().get(timeout=300))"
        environment = {**os.environ, "TASKS_FOLDER": str(app)}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=app, env=environment, text=True, capture_output=True
        )
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    worker = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--concurrency", "1"]
    with started("run", "--preferred", "1", "--max", "2", "--", *worker, cwd=app) as process:
        follow(controller, threads)
        assert ended_by(process, signal.SIGTERM) == 0
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])
