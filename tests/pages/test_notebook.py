# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The cells of docs/how-to/notebook.md in a real kernel, and what the page says of its ends."""

from __future__ import annotations

import os

import pytest
from jupyter_client.manager import KernelManager

from tests.support import ROOT
from tests.support.controllers import controller, wait_for
from tests.support.deadline import DEADLINE
from tests.support.pages import blocks

CELLS = [block.text for block in blocks(ROOT / "docs/how-to/notebook.md") if block.title]
NAME = "digits.ipynb"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs"),
]


def test_a_kernel_joins_is_interrupted_and_restarted(tmp_path, monkeypatch):
    with controller(tmp_path) as running:
        monkeypatch.setenv("TF_MALLEABLE_SOCKET", str(running.socket))
        kernel = KernelManager()
        kernel.start_kernel()
        try:
            client = kernel.client()
            client.start_channels()
            client.wait_for_ready(DEADLINE)
            joined = _run(client, CELLS[0])
            assert joined == ("ok", "")
            assert _run(client, CELLS[1]) == ("ok", "Threads(intra=2, inter=2)\n")
            (job,) = running.get("/v1/jobs")["jobs"]
            assert (job["name"], len(job["actual"])) == (NAME, 2)
            status, said = _run(client, CELLS[0])
            assert status == "ok"
            assert "this process is a job already" in said
            busy = client.execute("import time; print('busy', flush=True); time.sleep(600)")
            printed = ""
            while "busy\n" not in printed:  # A line may come in two messages.
                printed += _output(client.get_iopub_msg(DEADLINE))
            kernel.interrupt_kernel()
            assert _reply(client, busy) == "error"
            assert _jobs(running) == [job["id"]]
            kernel.restart_kernel(now=True)
            client.wait_for_ready(DEADLINE)
            wait_for(lambda: not _jobs(running))
            assert _run(client, CELLS[0])[0] == "ok"
            (again,) = running.get("/v1/jobs")["jobs"]
            assert (again["name"], again["id"] != job["id"]) == (NAME, True)
        finally:
            kernel.shutdown_kernel(now=True)
        wait_for(lambda: not _jobs(running))


def _jobs(running) -> list[str]:
    return [job["id"] for job in running.get("/v1/jobs")["jobs"]]


def _run(client, cell: str) -> tuple[str, str]:
    """Run a cell; return its status, and what it has printed."""
    message, printed = client.execute(cell), ""
    while True:
        said = client.get_iopub_msg(DEADLINE)
        if said["parent_header"].get("msg_id") != message:
            continue
        printed += _output(said)
        if said["msg_type"] == "status" and said["content"]["execution_state"] == "idle":
            return _reply(client, message), printed


def _output(message) -> str:
    return message["content"]["text"] if message["msg_type"] == "stream" else ""


def _reply(client, message: str) -> str:
    while (reply := client.get_shell_msg(DEADLINE))["parent_header"]["msg_id"] != message:
        pass
    return reply["content"]["status"]
