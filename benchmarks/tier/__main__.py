# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measures data tiers: nodes that read a slow source, plain, with whole copies, and with tiers.

The source passes a folder through FUSE, with a limit of bandwidth, a latency and counters. Needs
root, /dev/fuse, and libfuse3-dev. Arms take turns, so that both see the same machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.tier.cluster import SlowSource, cluster, read

MB = 1_000_000
NODES = 4
ARMS = ("plain", "whole", "tier")


def main() -> None:
    """Measure what was asked for, and print and keep the results."""
    parser = argparse.ArgumentParser(prog="benchmarks.tier", description=__doc__)
    parser.add_argument("--only", nargs="*", choices=[*CASES], default=[*CASES])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--arms", nargs="*", choices=ARMS, default=["plain", "tier"])
    parser.add_argument("--out", type=Path, default=Path("build/bench-tier.json"))
    options = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="tfm-bench-tier-") as folder:
        for name in options.only:
            results[name] = measure(name, Path(folder), options.arms, options.pairs)
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps(results, indent=1))


def measure(name: str, folder: Path, arms: list[str], pairs: int) -> list[dict[str, Any]]:
    """Return the runs of one case, and print them."""
    case = CASES[name]
    source = SlowSource(folder / "source")
    source.fill(case["count"], case["size"])
    runs = []
    for pair in range(pairs):
        for arm in arms if pair % 2 == 0 else arms[::-1]:
            runs.append({"arm": arm, **run(source, folder / "nodes", arm, case)})
            print(name, json.dumps(runs[-1]), flush=True)
    for arm in arms:
        mine = [each for each in runs if each["arm"] == arm]
        line = {key: statistics.median(each[key] for each in mine) for key in SHOWN}
        print(f"{name:12} {arm:6}", *(f"{key} {value:.6g}" for key, value in line.items()))
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


SHOWN = ("seconds", "cold", "worst", "mb", "opens", "metadata")


def run(source: SlowSource, folder: Path, arm: str, case: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of one run."""
    source.limit(0, 0)
    nodes_count = case.get("nodes", NODES)
    with cluster(source, folder, nodes_count, arm == "tier", case.get("capacity", 0)) as nodes:
        source.limit(case.get("rate", 40 * MB), 0.0005)
        before = source.asked()
        epochs = read(
            source, nodes, case.get("epochs", 1), *case.get("words", ()), whole=arm == "whole"
        )
        asked = source.asked().since(before)
    times = [max(each["seconds"] for each in epoch) for epoch in epochs]
    return {
        "seconds": sum(times),
        "cold": times[0],
        "worst": max(each["worst"] for epoch in epochs for each in epoch),
        "mb": asked.bytes / MB,
        "opens": asked.opens,
        "metadata": asked.metadata,
    }


SHARDS = {"count": 32, "size": 8_400_000}
CASES: dict[str, dict[str, Any]] = {
    "epochs": {**SHARDS, "epochs": 10},
    "cold-8": SHARDS,
    "cold-64": {"count": 4, "size": 64 * MB},
    "cold-small": {"count": 20_000, "size": 12_000},
    "cold-100": {**SHARDS, "rate": 100 * MB},
    "cold-cpu": {**SHARDS, "words": ("--compute", "0.15")},
    "one-reader": {**SHARDS, "nodes": 1},
    "same-order": {**SHARDS, "words": ("--same",)},
    "half": {**SHARDS, "epochs": 4, "capacity": 32 * 8_400_000 // 2 // NODES},
}

if __name__ == "__main__":
    main()
