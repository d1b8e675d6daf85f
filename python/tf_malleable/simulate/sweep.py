# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Simulation of many cases at once, each in its own process."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from tf_malleable.simulate.engine.host import SimulationError
from tf_malleable.simulate.engine.simulation import Outcome, Scenario, simulate
from tf_malleable.simulate.engine.workload import Workload

# Spawned rather than forked, as this program may have threads.
_CONTEXT = multiprocessing.get_context("spawn")
# Number of reports of a process on the jobs of its case that have ended.
_REPORTS = 200
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Case:
    """One simulation.

    Attributes:
        workload: Index of the workload.
        policy: Name and options of the policy.
        scenario: Machines and conditions.
        spans: Whether the spans are kept.
    """

    workload: int
    policy: str
    scenario: Scenario
    spans: bool = False


@dataclass(frozen=True)
class Result:
    """Result of a case.

    Attributes:
        case: The case.
        outcome: Result of the simulation; None if it failed.
        problem: Why it failed, in one sentence; None if it did not.
    """

    case: Case
    outcome: Outcome | None = None
    problem: str | None = None


def sweep(
    workloads: Sequence[Workload],
    cases: Sequence[Case],
    *,
    processes: int | None = None,
    on_progress: Callable[[int], None] = lambda ended: None,
) -> Generator[Result, None, None]:
    """Yield the result of each case as soon as it is known.

    All processes have ended once the iterator is closed, even if that is before its end.

    Args:
        workloads: The workloads.
        cases: Cases to simulate.
        processes: Number of concurrent processes; by default one per CPU this process may use.
        on_progress: Called with the number of simulated jobs that have ended in all.
    """
    most = processes or len(os.sched_getaffinity(0))
    waiting = [*enumerate(cases)][::-1]
    running: dict[Connection, tuple[int, BaseProcess]] = {}
    ended = [0] * len(cases)
    try:
        while waiting or running:
            while waiting and len(running) < most:
                index, case = waiting.pop()
                ours, theirs = _CONTEXT.Pipe(duplex=False)
                arguments = (workloads[case.workload], case, theirs)
                process = _CONTEXT.Process(target=_simulate, args=arguments, daemon=True)
                process.start()
                theirs.close()
                running[ours] = index, process
            for ready in wait(list(running), _POLL_SECONDS):
                assert isinstance(ready, Connection)
                index, worker = running[ready]
                try:
                    said = ready.recv()
                except EOFError:
                    worker.join()
                    said = Result(cases[index], problem=f"its process ended, {_how(worker)}")
                if isinstance(said, int):
                    ended[index] = said
                    continue
                ended[index] = len(workloads[cases[index].workload].tasks)
                on_progress(sum(ended))
                # Yield first, as Ctrl-C may come at any time.
                yield said
                del running[ready]
                ready.close()
                worker.join()
            on_progress(sum(ended))
    finally:
        for connection, (_, worker) in running.items():
            worker.kill()
            worker.join()
            connection.close()


def _how(process: BaseProcess) -> str:
    code = process.exitcode or 0
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def _simulate(workload: Workload, case: Case, result: Connection) -> None:
    # Ctrl-C goes to all processes of the terminal; the parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    every = max(1, len(workload.tasks) // _REPORTS)

    def report(ended: int) -> None:
        if ended % every == 0:
            result.send(ended)

    try:
        outcome = simulate(
            workload.tasks, case.policy, case.scenario, spans=case.spans, on_progress=report
        )
    except SimulationError as error:
        result.send(Result(case, problem=str(error)))
    else:
        result.send(Result(case, outcome))
