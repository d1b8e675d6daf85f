# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What can be measured: names and targets, without a line that measures."""

from __future__ import annotations

from typing import Final

from benchmarks.common.worker.client import Process

CAPACITIES: Final = (64, 256)
CHANGES: Final = "changes"
ENLARGE: Final = "enlarge"
PARKED: Final = "parked"
PLACEMENT: Final = "placement"
TASKS: Final = "tasks"

CAPACITY_OF: Final = {f"capacity-{capacity}": capacity for capacity in CAPACITIES}
MEASURES: Final = {
    **{
        measure: f"limit 2 of {capacity}: throughput, CPU time, memory"
        for measure, capacity in CAPACITY_OF.items()
    },
    CHANGES: "limits 1 and 2 in turn, each for a second: share of the ideal",
    ENLARGE: "a training enlarged from 1 thread to 2 at a third of its work",
    PARKED: f"limit 2 after {max(CAPACITIES)}, with that many threads: at work and idle",
    TASKS: "limits untouched: many tiny ops side by side",
    PLACEMENT: "each worker of the intra-op pool pinned to a CPU of its own, against free",
}

# As on hosts with that many CPUs, of which two were granted before TensorFlow began. With
# oneDNN's ops, which TensorFlow has by default only on CPUs with AVX-512 VNNI.
OURS: Final = {
    measure: Process(
        f"ours-of-{capacity}", ours=True, threads=capacity, most=capacity, first=2, onednn=True
    )
    for measure, capacity in CAPACITY_OF.items()
}
STOCK_2: Final = Process("stock-2", ours=False, threads=2, onednn=True)
OURS_UNTOUCHED: Final = Process("ours", ours=True, threads=2, onednn=True)

CHANGING: Final = ("matmul-1024", "mlp", "conv", "cnn")
CHANGING_SECONDS: Final = 32.0
ENLARGED: Final = ("mlp", "cnn")
ENLARGED_STEPS: Final = 60
ENLARGED_ROUNDS: Final = 2
PARKED_WORKLOADS: Final = ("mlp", "tiny-ops")
IDLE_SECONDS: Final = 5.0
PLACED: Final = ("matmul-256", "matmul-1024", "mlp", "cnn", "lstm", "transformer")
TASKS_WORKLOAD: Final = "tiny-ops-16"

THROUGHPUT_TARGET: Final = 0.98
CPU_TARGET: Final = 1.03
MEMORY_TARGET: Final = 1.05
# Besides, each thread of the capacity may have a queue for its tasks, in bytes.
MEMORY_PER_THREAD: Final = 64 * 1024
IDLE_TARGET: Final = 0.001
CHANGES_TARGET: Final = 0.97
ENLARGE_TARGET: Final = 0.97
TASKS_TARGET: Final = 0.99

TURNS: Final = 4
SLICE_SECONDS: Final = 0.25
