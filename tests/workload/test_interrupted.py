# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""An interrupted workload while its jobs are on their way to the controller."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.controllers import wait_for
from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.linux.processes import procfs
from tf_malleable.workload.plan import PlannedJob
from tf_malleable.workload.runner import Event, Start, run_jobs

PLAN = [PlannedJob(0.0, JobRequest(name, ("sleep", "600"))) for name in ("first", "second")]


def _children() -> list[int]:
    return procfs.trees([os.getpid()])[os.getpid()][1:]


class FakeController:
    """Knows some of our child processes as jobs, none of which has written its id."""

    socket = Path("/nowhere")

    def __init__(self, known: int) -> None:
        self.known = known
        # Those of other tests, which end with this process.
        self._others = frozenset(_children())
        self.cancelled: list[str] = []
        self.strangers_alive: list[int] = []

    def children(self) -> list[int]:
        return [pid for pid in _children() if pid not in self._others]

    def jobs(self) -> list[Any]:
        mine = self.children()[: self.known]
        return [SimpleNamespace(id=f"job-{pid}", pid=pid, state="waiting") for pid in mine]

    def ask(self, method: str, path: str, answer: type[object]) -> None:
        self.cancelled.append(path)
        strangers = self.children()[self.known :]
        wait_for(lambda: all(procfs.read_stat(pid).state == "Z" for pid in strangers))


def interrupt(event: Event) -> None:
    if event.kind == "tick":
        raise KeyboardInterrupt


def run(controller: FakeController, folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_jobs(
            PLAN,
            out=folder,
            controller=controller,  # type: ignore[arg-type]
            watch=interrupt,
            launch=lambda job, slot, id_file: Start(job.request.command),
        )


def test_jobs_are_cancelled_whose_ids_are_not_known_yet(tmp_path):
    controller = FakeController(known=2)
    run(controller, tmp_path)
    assert len(controller.cancelled) == 2
    assert controller.children() == []


def test_programs_that_are_no_jobs_yet_end_before_cores_become_free(tmp_path):
    # ask() waits until the program that the controller does not know has ended.
    controller = FakeController(known=1)
    run(controller, tmp_path)
    assert len(controller.cancelled) == 1
    assert controller.children() == []


def test_interrupted_while_a_program_starts_none_is_left(tmp_path, monkeypatch):
    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    run(controller := FakeController(known=0), tmp_path)
    assert controller.children() == []


def test_a_program_that_cannot_be_watched_is_ended(tmp_path, monkeypatch):
    def interrupted(pid: int) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "pidfd_open", interrupted)
    run(controller := FakeController(known=0), tmp_path)
    assert controller.children() == []
