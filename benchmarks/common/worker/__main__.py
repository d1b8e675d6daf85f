# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One process under measurement: does what it is told, a line of JSON at a time.

Started by client.py. Reads commands on standard input and answers on standard output;
while it waits for a command, it does nothing at all.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

# The allocator needs some ten steps on each thread before it stops giving memory
# back to the kernel. In CPU time, for all processes warm up at once.
_WARM_UP_STEPS = 3
_WARM_UP_CPU_SECONDS = 0.4
# Caches and clock speed are those of whoever ran before.
_LEAD_IN_SECONDS = 0.03


def _private_stdout() -> TextIO:
    """Return the standard output for answers only; whatever else prints, to stderr."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return answers


class Worker:
    """The commands, one method each. Arguments and answers are JSON."""

    def __init__(self, ours: bool, workloads: list[str]) -> None:
        if ours:
            import tf_malleable  # noqa: F401 - before tensorflow.
        from benchmarks.common.worker import steps

        self._steps = {name: steps.build(name) for name in workloads}
        self.warm_up()
        self._trainer: Any = None
        self._watch: Any = None
        self._workers: list[int] = []
        gc.collect()
        gc.freeze()
        gc.disable()

    def hello(self) -> dict[str, object]:
        """Say what this process is, so that the pairing can be trusted."""
        import keras
        import tensorflow as tf

        ours = sys.modules.get("tf_malleable")
        return {
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
            "tf_malleable": None if ours is None else ours.__version__,
            "backend": None if ours is None else ours.backend(),
        }

    def warm_up(self) -> None:
        """Run each workload until it is as fast as it will be."""
        for step in self._steps.values():
            start = time.process_time()
            for _ in range(_WARM_UP_STEPS):
                step()
            while time.process_time() - start < _WARM_UP_CPU_SECONDS:
                step()

    def limit(self, threads: int) -> None:
        """Set both limits and wait until they hold."""
        import tf_malleable as tfm

        tfm.set_threads(threads)
        if not tfm.wait_settled(10):
            raise TimeoutError(f"limit {threads} does not hold after 10 s")

    def slice(self, workload: str, seconds: float) -> dict[str, float]:
        """Repeat a step for some seconds and count."""
        step = self._steps[workload]
        lead_in = time.perf_counter() + _LEAD_IN_SECONDS
        while time.perf_counter() < lead_in:
            step()
        steps = 0
        cpu_start = time.process_time()
        start = time.perf_counter()
        while (wall := time.perf_counter() - start) < seconds:
            step()
            steps += 1
        return {"steps": steps, "wall": wall, "cpu": time.process_time() - cpu_start}

    def changing(self, workload: str, seconds: float) -> dict[str, float]:
        """Repeat a step while limits change; return how many were done, and ideally would be."""
        from benchmarks.common.worker import changing

        return changing.measure(self._steps[workload], seconds)

    def durations(self, workload: str, steps: int, first: int, then: int) -> list[float]:
        """Return the seconds of each step, with another limit after a third of them."""
        from benchmarks.common.worker import changing

        return changing.durations(self._steps[workload], steps, first, then)

    def pin(self, apart: bool) -> None:
        """Give each worker of the intra-op pool a CPU of its own, or all of them."""
        from benchmarks.common.worker import placement

        if not self._workers:
            self._workers = placement.intra_op_threads(2)
        placement.pin(self._workers, apart)

    def idle(self, seconds: float) -> float:
        """Return the CPU time that the process takes while it does nothing, in seconds."""
        start = time.process_time()
        time.sleep(seconds)
        return time.process_time() - start

    def memory(self) -> int:
        """Return how many bytes of memory the process has had at most."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def collect(self) -> int:
        """Collect the garbage that measuring left, since nobody else does."""
        return gc.collect()

    def calls(self, changes: int, loaded: bool) -> list[float]:
        """Return how long set_threads took, call by call."""
        from benchmarks.common.worker import settling

        return settling.calls(changes, loaded)

    def settles(self, changes: int, load: str) -> dict[str, object]:
        """Return how long settling took, change by change, and which tasks ran."""
        from benchmarks.common.worker import settling

        return settling.settles(changes, load)

    def prepare_training(self) -> None:
        """Build and warm up the training, at the limits now in force."""
        from benchmarks.common.worker import training

        self._trainer = training.Trainer()

    def train(self, steps: int, first: int, then: int, change_at: int) -> list[float]:
        """Train with one limit, from a step on with another; return the seconds of each."""
        trained: list[float] = self._trainer.train(steps, first, then, change_at)
        return trained

    def starts(self, steps: int) -> list[float]:
        """Train; return when each step started."""
        found: list[float] = self._trainer.starts(steps)
        return found

    def watch(self, loaded: bool) -> None:
        """Note from now on when limits change, and when that has settled."""
        from benchmarks.common.worker import following

        self._watch = following.Watch(loaded)

    def changes(self) -> list[dict[str, float]]:
        """Watch no longer; return what was noted."""
        found: list[dict[str, float]] = self._watch.stop()
        return found

    def follower_seconds(self, seconds: float) -> float:
        """Return the CPU time of the thread that follows the cgroup during `seconds` seconds."""
        from benchmarks.common.worker import following

        return following.cpu_seconds(seconds)


def main() -> int:
    """Answer commands until the input ends."""
    answers = _private_stdout()
    options = json.loads(sys.argv[1])
    worker = Worker(**options)
    answers.write(json.dumps(worker.hello()) + "\n")
    for line in sys.stdin:
        command: dict[str, Any] = json.loads(line)
        method: Callable[..., object] = getattr(worker, command.pop("do"))
        answers.write(json.dumps(method(**command)) + "\n")
    # Without waiting for TensorFlow to take itself apart.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
