# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The libraries that a job's processes have loaded: how they are found, and who is told of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace

from tests.support.service import ME, host
from tf_malleable.api.schema.messages import LibraryThreads
from tf_malleable.cli.jobs.job_texts import threads_of
from tf_malleable.controller.jobs.job_processes import JobProcesses
from tf_malleable.controller.processes import loaded_libraries
from tf_malleable.controller.requests.callers import Sight
from tf_malleable.linux.processes.users import user_name
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


def test_they_are_told_to_the_owner_by_class_and_with_the_limit_of_the_actual_cpus(state):
    torch = ThreadLibrary("PyTorch", "at op boundaries", 16)
    bounded = ThreadLibrary("OpenBLAS", "at op boundaries", 16, 1)

    async def scenario():
        async with host(state, cpus=2) as here:
            job = here.submit(here.program(), running=True)
            await here.until(lambda: len(here.status(job).actual) == 2)
            live = here.service._reactor.roster.live[job]
            live.processes.note_libraries({8: (torch, TORCH), 7: (torch, bounded)}, {8: "PyTorch"})
            status = here.status(job)
            assert status.pools == [
                LibraryThreads("PyTorch", "at op boundaries", 2, 16, [7, 8]),
                LibraryThreads("OpenBLAS", "at op boundaries", 1, 16, [7]),
                LibraryThreads("PyTorch", "confined only", None, None, [8]),
            ]
            assert [threads_of(each) for each in status.pools] == [
                "PyTorch: at op boundaries, 2 of 16 threads (processes 7 and 1 more)",
                "OpenBLAS: at op boundaries, 1 of 16 threads (process 7)",
                "PyTorch: confined only (process 8)",
            ]
            own, other = (
                Sight(everything=False, user=user, job=None)
                for user in (user_name(ME.uid), "somebody else")
            )
            assert own.of(status).pools == status.pools
            assert other.of(status).pools == []
            # Workers of an elastic training have parts of its CPUs.
            live.delivery.splitters.add(7)
            assert [each.limit for each in here.status(job).pools] == [None] * 3

    asyncio.run(scenario())
