# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Frameworks that start workers of their own: each worker follows three grants, and ends."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile

import pytest

from tests.support.commands import started
from tests.support.programs import ended_by, follow_reports, stock_end, wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs"),
]


@pytest.fixture
def ray_folder(monkeypatch):
    """Ray's files, with a short path, as there are sockets among them."""
    folder = tempfile.mkdtemp(prefix="ray")
    monkeypatch.setenv("RAY_TMPDIR", folder)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # By default they have a niceness of 15, with which they starve beside other tests.
    monkeypatch.setenv("RAY_worker_niceness", "0")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.usefixtures("ray_folder")
def test_workers_of_ray_follow_grants(controller, app):
    # Without us, too, Ray aborted in 3 of 13 times: a signal may come in the middle of a call.
    follows_and_ends(controller, app, "ray_workers.py", workers=2, also=-signal.SIGABRT)


@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_workers_of_dask_follow_grants(controller, app, kind):
    follows_and_ends(controller, app, "dask_cluster.py", kind, workers=2)


def follows_and_ends(controller, app, *program: str, workers: int, also: int | None = None) -> None:
    """Check a program that prints "started", then the limits of its workers.

    It must end as without us, or with the other exit code that it may also have without us.
    """
    command = [sys.executable, *program]
    with started("run", "--preferred", "1", "--max", "2", "--", *command, cwd=app) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n", process.stderr.read()
        follow_reports(controller, process, lambda cores: [cores] * workers)
        code = ended_by(process, signal.SIGTERM)
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])
    without = stock_end(command, app, lambda stock: stock.stdout.readline())
    assert code == without or (also is not None and also in (code, without))
