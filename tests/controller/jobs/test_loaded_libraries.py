# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The order in which processes are inspected, of which there may be more than can be at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace

from tf_malleable.controller.jobs.job_processes import JobProcesses
from tf_malleable.controller.processes import loaded_libraries
from tf_malleable.model.pool import ThreadLibrary

JOBS, PROCESSES = 10, 50
TORCH = ThreadLibrary("PyTorch", "confined only")


def test_no_process_is_inspected_again_and_again_while_others_wait(monkeypatch, caplog):
    inspected: Counter[int] = Counter()

    def inspect(pid: int, has_agent: bool) -> tuple[ThreadLibrary, ...]:
        inspected[pid] += 1
        return (TORCH,) if pid == 1 else ()

    monkeypatch.setattr(loaded_libraries, "_libraries", inspect)
    jobs = [
        SimpleNamespace(
            over=False,
            record=SimpleNamespace(id=str(job), title=f"job {job}"),
            delivery=SimpleNamespace(agents={}),
            processes=JobProcesses(tree=[*range(job * PROCESSES, (job + 1) * PROCESSES)]),
        )
        for job in range(JOBS)
    ]
    looker = loaded_libraries.LoadedLibraries()

    async def look(seconds: range) -> None:
        for now in seconds:
            await looker.look(jobs, float(now))

    asyncio.run(look(range(2)))
    assert not inspected  # What has just begun has loaded little.
    asyncio.run(look(range(2, 200)))
    assert set(inspected) == set(range(JOBS * PROCESSES))
    assert max(inspected.values()) - min(inspected.values()) <= 1
    assert jobs[0].processes.libraries[1] == (TORCH,)
    assert jobs[0].processes.fixed == {1: "PyTorch"}
    assert [record.getMessage() for record in caplog.records] == [
        "job 0: PyTorch in process 1 is not malleable: it keeps the threads that it has started"
        " with"
    ]
