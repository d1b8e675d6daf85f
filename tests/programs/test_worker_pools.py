# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Pools of worker processes inside one program: each worker follows three grants."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from tests.support.commands import started, tfm
from tests.support.programs import (
    ENDS,
    await_report,
    check_malleable,
    ended_by,
    follow_reports,
    job,
    stock_end,
    wait_for,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs"),
]


@pytest.mark.parametrize("name", ["loky", "threads", "futures", "launcher"])
def test_each_worker_follows_grants(controller, app, name):
    command = [sys.executable, "pools.py", name]
    with started("run", "--preferred", "1", "--max", "2", "--", *command, cwd=app) as process:
        follow_reports(controller, process, lambda cores: [cores, cores])
        code = ended_by(process, signal.SIGTERM)
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])
    assert code == stock_end(command, app, lambda stock: await_report(stock, [None, None]))


def test_workers_of_xdist_follow_grants(controller, app):
    (app / "test_limit.py").write_text(
        "import os, pathlib, pytest, time\n"
        "from limits import limit\n"
        "@pytest.mark.parametrize('number', range(2))\n"
        "def test_limit(number):\n"
        "    while not os.path.exists('over'):\n"
        "        pathlib.Path(f'{number}.new').write_text(str(limit()))\n"
        "        os.replace(f'{number}.new', f'{number}.limit')\n"
        "        time.sleep(0.02)\n"
    )

    def limits():
        files = [app / f"{number}.limit" for number in range(2)]
        return [int(file.read_text()) for file in files if file.exists()]

    pytest_ = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    command = ["run", "--preferred", "1", "--max", "2", "--", *pytest_]
    with started(*command, cwd=app, env=environment) as process:
        wait_for(lambda: limits() == [1, 1])
        for cores in (2, 1, 2):
            assert tfm("set", job(controller)["id"], str(cores)).returncode == 0
            wait_for(lambda n=cores: len(job(controller)["actual"]) == n)
            wait_for(lambda n=cores: limits() == [n, n])
        check_malleable(controller)
        (app / "over").touch()
        out, _ = process.communicate(timeout=ENDS)
        assert process.returncode == 0, out
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])
