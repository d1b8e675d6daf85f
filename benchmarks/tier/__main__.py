# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measures data tiers: nodes that read a slow source, plain, with whole copies, and with tiers.

The source passes a folder through FUSE, with a limit of bandwidth, a latency and counters. Needs
root, /dev/fuse, and libfuse3-dev. Arms take turns, so that all see the same machine:

  plain    the source
  whole    each file is copied whole before it is read, and other nodes do not share it
  tier     a tier on each node
  absent   programs are started for a tier whose daemon is gone
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.command_line import CommandLine, finish, positive
from benchmarks.tier.cluster import SlowSource, busy_seconds, cluster, daemon_seconds, read

MB = 1_000_000
NODES = 4
ARMS = ("plain", "whole", "tier", "absent")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the command line says."""
    titles = {name: case["title"] for name, case in CASES.items()}
    line = CommandLine("tier", str(__doc__), "out/tier", titles)
    line.formatter_class = argparse.RawDescriptionHelpFormatter
    line.add_argument("--arms", nargs="+", choices=ARMS, help="by default those of each case")
    line.add_argument("--rounds", type=positive, default=5, help="runs of each arm, in turns")
    said = line.parse(arguments)
    return finish(
        "tier", lambda: run_all(said.only or tuple(CASES), said.arms, said.rounds, said.out)
    )


def run_all(names: Sequence[str], arms: Sequence[str] | None, rounds: int, out: Path) -> None:
    """Measure, print, and write tier.json."""
    results: dict[str, Any] = {}
    chosen = {name: arms or CASES[name].get("arms", ("plain", "tier")) for name in names}
    progress = Progress(sum(map(len, chosen.values())) * rounds)
    with tempfile.TemporaryDirectory(prefix="tfm-bench-tier-") as folder:
        for name in names:
            results[name] = measure(name, Path(folder), chosen[name], rounds, progress)
            (out / "tier.json").write_text(json.dumps(results, indent=1))


class Progress:
    """Tells how far it is, and how long it will take."""

    def __init__(self, runs: int) -> None:
        """Begin, with so many runs to come."""
        self._runs, self._done, self._began = runs, 0, time.monotonic()

    def tell(self, what: str) -> None:
        """Note that a run has ended."""
        self._done += 1
        took = time.monotonic() - self._began
        left = took / self._done * (self._runs - self._done)
        print(f"[{self._done}/{self._runs}, about {left / 60:.0f} min left] {what}", flush=True)


def measure(
    name: str, folder: Path, arms: Sequence[str], rounds: int, progress: Progress
) -> list[dict[str, Any]]:
    """Return the runs of one case, and print them."""
    case = CASES[name]
    source = SlowSource(folder / "source")
    source.fill(case["count"], case["size"])
    runs = []
    for number in range(rounds):
        for arm in arms if number % 2 == 0 else arms[::-1]:
            runs.append({"arm": arm, **run(source, folder / f"nodes{len(runs)}", arm, case)})
            progress.tell(f"{name} {json.dumps(runs[-1])}")
    for arm in arms:
        mine = [each for each in runs if each["arm"] == arm]
        line = {key: statistics.median(each[key] for each in mine) for key in SHOWN}
        print(f"{name:12} {arm:6}", *(f"{key} {value:.6g}" for key, value in line.items()))
    for number in range(len(runs)):
        shutil.rmtree(folder / f"nodes{number}")
    base = [each["seconds"] for each in runs if each["arm"] == arms[0]]
    for arm in arms[1:]:
        ratios = [
            each / before
            for each, before in zip(
                (each["seconds"] for each in runs if each["arm"] == arm), base, strict=True
            )
        ]
        print(f"{name:12} {arm} / {arms[0]}:", *(f"{ratio:.3f}" for ratio in sorted(ratios)))
    sys.stdout.flush()
    return runs


SHOWN = ("seconds", "cold", "last", "worst", "mb", "opens", "metadata", "busy", "daemon")


def run(source: SlowSource, folder: Path, arm: str, case: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of one run."""
    source.limit(0, 0)
    nodes_count = case.get("nodes", NODES)
    options: tuple[str, ...] | None = () if arm in ("tier", "absent") else None
    if options is not None and "capacity" in case:
        options += ("--capacity", str(case["capacity"]))
    with cluster(source, folder, nodes_count, options) as nodes:
        if arm == "absent":
            for node in nodes:
                node.end_tier()
        source.limit(case.get("rate", 40 * MB), 0.0005)
        before, busy, cpu = source.asked(), busy_seconds(), sum(map(daemon_seconds, nodes))
        epochs = read(
            source,
            nodes,
            case.get("epochs", 1),
            *case.get("words", ()),
            whole=arm == "whole",
        )
        asked = source.asked().since(before)
        busy = busy_seconds() - busy
        cpu = sum(map(daemon_seconds, nodes)) - cpu
    times = [max(each["seconds"] for each in epoch) for epoch in epochs]
    return {
        "seconds": sum(times),
        "cold": times[0],
        "last": times[-1],
        "worst": max(each["worst"] for epoch in epochs for each in epoch),
        "mb": asked.bytes / MB,
        "opens": asked.opens,
        "metadata": asked.metadata,
        "busy": busy,
        "daemon": cpu,
    }


SHARDS = {"count": 32, "size": 8_400_000}
CASES: dict[str, dict[str, Any]] = {
    "epochs": {"title": "ten epochs", **SHARDS, "epochs": 10},
    "cold-8": {"title": "a cold epoch of files of 8.4 MB", **SHARDS},
    "cold-64": {"title": "of files of 64 MB", "count": 4, "size": 64 * MB},
    "cold-small": {"title": "of 20,000 files of 12 kB", "count": 20_000, "size": 12_000},
    "cold-100": {"title": "from a source of 100 MB/s", **SHARDS, "rate": 100 * MB},
    "cold-cpu": {
        "title": "of readers that compute",
        **SHARDS,
        "words": ("--compute", "0.15"),
    },
    "train-cpu": {
        "title": "four epochs of readers that compute",
        **SHARDS,
        "epochs": 4,
        "words": ("--compute", "0.15"),
    },
    "whole-8": {
        "title": "a cold epoch against whole copies without a tier",
        **SHARDS,
        "arms": ("plain", "whole", "tier"),
    },
    "absent-8": {
        "title": "programs whose tier is gone",
        **SHARDS,
        "arms": ("plain", "absent"),
    },
    "absent-small": {
        "title": "the same, of 4,000 files of 12 kB",
        "count": 4_000,
        "size": 12_000,
        "arms": ("plain", "absent"),
    },
    "served": {
        "title": "thirty epochs of one node, for the daemon's CPU time",
        **SHARDS,
        "nodes": 1,
        "epochs": 30,
        "rate": 0,
        "arms": ("tier",),
    },
    "one-reader": {"title": "a cold epoch of one node alone", **SHARDS, "nodes": 1},
    "same-order": {
        "title": "all nodes read all in the same order",
        **SHARDS,
        "words": ("--same",),
    },
    "half": {
        "title": "four epochs with room for half of the data",
        **SHARDS,
        "epochs": 4,
        "capacity": 32 * 8_400_000 // 2 // NODES,
    },
}

if __name__ == "__main__":
    sys.exit(main())
