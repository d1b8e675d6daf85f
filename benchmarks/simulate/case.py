# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One simulation in a process of its own; as a program, this prints what it took as JSON."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Final

CORES: Final = 64
SEED: Final = 1


@dataclass(frozen=True)
class Took:
    """What a simulation took.

    Attributes:
        seconds: CPU time, which other programs hardly disturb.
        events: Arrivals, ends and changes of grants.
        decisions: How often the policy was asked.
        most_live: The most jobs that were there at once.
        mem: The most memory of its process, in bytes.
    """

    seconds: float
    events: int
    decisions: int
    most_live: int
    mem: int


def simulated(workload: str, policy: str) -> Took:
    """Simulate in a new process.

    Args:
        workload: Workload of the generator.
        policy: Name and options of the policy.
    """
    module = [sys.executable, "-m", "benchmarks.simulate.case", workload, policy]
    done = subprocess.run(module, check=True, stdout=subprocess.PIPE, text=True)
    return Took(**json.loads(done.stdout))


def _most_live(spans: list[tuple[float, float]]) -> int:
    """Return the most of these pairs of arrival and end that overlap."""
    changes = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    most = live = 0
    for _, change in changes:
        live += change
        most = max(most, live)
    return most


def main() -> None:
    """Simulate what the command line says."""
    from tf_malleable.model import Machine
    from tf_malleable.simulate.engine.simulation import Scenario, simulate
    from tf_malleable.simulate.engine.workload import Assumed
    from tf_malleable.simulate.workloads.generate import generate

    workload = generate(sys.argv[1], CORES, SEED, Assumed(starting=5.0))
    scenario = Scenario((Machine.flat(CORES),), seed=SEED)
    begin = time.process_time()
    outcome = simulate(workload.tasks, sys.argv[2], scenario)
    took = Took(
        time.process_time() - begin,
        outcome.counts.events,
        outcome.counts.decisions,
        _most_live([(job.submitted, job.ended) for job in outcome.history.jobs]),
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )
    print(json.dumps(asdict(took)))


if __name__ == "__main__":
    main()
