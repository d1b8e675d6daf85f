# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Programs in pairs: limited by the hook, started with that number, and confined without the hook.

All of them are alive at a time and compute in turns, so that what else the machine does meets all.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import tf_malleable.runtime
from benchmarks.common.enlarging import measure as measure_enlarging
from benchmarks.openmp.names import WORKLOADS

_PROGRAM: Final = str(Path(__file__).with_name("program.py"))
_HOOK: Final = Path(tf_malleable.runtime.__file__).with_name("libtf_malleable_openmp.so")
_STARTS: Final = 20
_CHANGES: Final = 20
# With one thread there is no team, and those of the last one stay.
_FEW, _MANY = 2, 4
_FEWEST_STEPS: Final = 3
# Else a process gives its memory back after each step, or not, by the luck of its layout: PyTorch's
# convolution then takes up to 1.4 times as long, in all ways.
_KEEPS_MEMORY: Final = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(2 << 30),
}


class _Program:
    def __init__(self, workload: str, limit: int, variables: Mapping[str, str]) -> None:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "TF_MALLEABLE"))}
        self._limit = limit
        self._process: Any = subprocess.Popen(
            [sys.executable, _PROGRAM, workload],
            env={**clean, **_KEEPS_MEMORY, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def compute(self, seconds: float) -> dict[str, float]:
        """Return operations a second, and CPU seconds of each."""
        found: dict[str, float] = json.loads(self._answer(f"{seconds} {self._limit}"))
        return found

    def enlarge(self, count: int, first: int, later: int) -> list[float]:
        """Return the seconds of so many operations, of which a third has the first limit."""
        found: list[float] = json.loads(self._answer(f"enlarge {count} {first} {later}"))
        return found

    def settle(self, count: int, low: int, high: int) -> list[float]:
        """Return by how many ms it is late after each of so many changes; see program.settle()."""
        found: list[float] = json.loads(self._answer(f"settle {count} {low} {high}"))
        return found

    def _answer(self, line: str) -> str:
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return str(self._process.stdout.readline())

    def end(self) -> None:
        """Wait for its end."""
        self._process.communicate()


def _hooked(capacity: int) -> dict[str, str]:
    """Return the environment of a program that has started with so many threads."""
    number = str(capacity)
    return {
        "LD_PRELOAD": str(_HOOK),
        "TF_MALLEABLE_MAX_THREADS": number,
        "TF_MALLEABLE_THREADS": number,
        # numba takes its number from the CPUs, of which there are as many on such a host.
        "NUMBA_NUM_THREADS": number,
    }


def _threads(number: int) -> dict[str, str]:
    return {"OMP_NUM_THREADS": str(number), "NUMBA_NUM_THREADS": str(number)}


def measure(
    workload: str, limit: int, capacity: int, rounds: int, seconds: float, others: Sequence[str]
) -> dict[str, object]:
    """Return ratios to the program that was started with the limit: medians of pairs."""
    ways: dict[str, tuple[int, dict[str, str]]] = {
        "limited": (limit, _hooked(capacity)),
        "confined": (0, _threads(capacity)),
        "untouched": (0, _hooked(limit)),
    }
    programs = {"started": _Program(workload, 0, _threads(limit))}
    programs |= {name: _Program(workload, *ways[name]) for name in others}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in programs}
    order = list(programs)
    for _ in range(rounds):
        for name in order:
            found[name].append(programs[name].compute(seconds))
        order.reverse()
    for program in programs.values():
        program.end()

    def ratio(name: str, what: str) -> float:
        pairs = zip(found[name], found["started"], strict=True)
        return statistics.median(ours[what] / theirs[what] for ours, theirs in pairs)

    return {
        "workload": workload,
        "limit": limit,
        "capacity": capacity,
        "throughput": {name: ratio(name, "per_second") for name in others},
        "cpu": {name: ratio(name, "cpu") for name in others},
        "rounds": found,
    }


def speed_up(workload: str, threads: int, rounds: int, seconds: float) -> dict[str, float]:
    """Return by what one program's operations a second grow from 1 to so many threads.

    Beside that, by what the CPUs grow that it keeps busy: medians of pairs.
    """
    one, several = (_Program(workload, limit, _hooked(threads)) for limit in (1, threads))
    pairs = [(one.compute(seconds), several.compute(seconds)) for _ in range(rounds)]
    for program in (one, several):
        program.end()

    def grown(value: Callable[[dict[str, float]], float]) -> float:
        return statistics.median(value(after) / value(before) for before, after in pairs)

    return {
        "operations": grown(lambda each: each["per_second"]),
        "busy_cpus": grown(lambda each: each["per_second"] * each["cpu"]),
    }


def run_speed_ups(
    only: Sequence[str], threads: int, rounds: int, seconds: float, out: Path
) -> None:
    """Measure speed_up() of workloads, print a line for each, and write all to a file."""
    results: dict[str, dict[str, float]] = {}
    for workload in only or WORKLOADS:
        found = results[workload] = speed_up(workload, threads, rounds, seconds)
        (out / "speed_up.json").write_text(json.dumps(results, indent=1))
        grown = f"operations × {found['operations']:.2f}, busy CPUs × {found['busy_cpus']:.2f}"
        print(f"{workload}, 1 to {threads}: {grown}", flush=True)


def run_enlarging(only: Sequence[str], rounds: int, seconds: float, out: Path) -> None:
    """Measure enlarging from 1 to 2 threads, print a line for each workload, and write a file.

    Args:
        only: Workloads; all if empty.
        rounds: Number of rounds.
        seconds: Length of a training with one thread.
        out: Folder of the file.
    """
    results: dict[str, dict[str, float]] = {}
    for workload in only or WORKLOADS:
        program = _Program(workload, 1, _hooked(2))
        # In thirds.
        third = round(seconds * program.compute(seconds)["per_second"] / 3)
        count = 3 * max(_FEWEST_STEPS, third)
        found = measure_enlarging(functools.partial(program.enlarge, count), rounds)
        program.end()
        gain = found.at_one / found.at_two
        results[workload] = {"share": found.share, "speed_up": gain, "steps": count}
        (out / "enlarging.json").write_text(json.dumps(results, indent=1))
        said = f"{found.share:.3f} of the ideal gain, 2 threads {gain:.2f} times as fast as 1"
        print(f"{workload}, {count} operations: {said}", flush=True)


def run_settling(only: Sequence[str], rounds: int, out: Path) -> None:
    """Measure how soon programs follow changes between 2 and 4 threads; print and write it."""
    results: dict[str, list[float]] = {}
    for workload in only or WORKLOADS:
        program = _Program(workload, 0, {**_hooked(_MANY), "OMP_WAIT_POLICY": "passive"})
        late = results[workload] = program.settle(_CHANGES * rounds, _FEW, _MANY)
        program.end()
        (out / "settling.json").write_text(json.dumps(results, indent=1))
        said = "its threads do not tell"
        if late:
            said = f"late by {statistics.median(late):.3f} ms, at most {max(late):.3f}"
        print(f"{workload}, {len(late)} changes: {said}", flush=True)


def start_up() -> dict[str, float]:
    """Return the median time of /bin/true in ms, without and with the hook, in turns."""
    times: dict[str, list[float]] = {"without": [], "with": []}
    for _ in range(_STARTS):
        for name, variables in (("without", {}), ("with", {"LD_PRELOAD": str(_HOOK)})):
            begin = time.perf_counter()
            subprocess.run(["/bin/true"], env=variables, check=True)
            times[name].append(1000 * (time.perf_counter() - begin))
    return {name: statistics.median(each) for name, each in times.items()}


def run(
    only: Sequence[str],
    limits: Sequence[int],
    capacities: Sequence[int],
    ways: Sequence[str],
    rounds: int,
    seconds: float,
    out: Path,
) -> None:
    """Measure workloads, print a line for each, and write all to a file."""
    results: list[dict[str, object]] = []
    started = start_up()
    print(
        f"start of a program: {started['without']:.2f} ms, with the hook {started['with']:.2f} ms"
    )
    for workload, capacity, limit in itertools.product(only or WORKLOADS, capacities, limits):
        found: Any = measure(workload, limit, capacity, rounds, seconds, ways)
        results.append(found)
        content = {"start_ms": started, "results": results}
        (out / "openmp.json").write_text(json.dumps(content, indent=1))
        figures = "  ".join(
            f"{name} {found['throughput'][name]:.3f} (CPU {found['cpu'][name]:.2f})"
            for name in found["throughput"]
        )
        print(f"{workload}, {limit} of {capacity}: {figures}", flush=True)
