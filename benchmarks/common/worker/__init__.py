# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Processes under measurement: what runs in one, and the client that starts and asks it."""

from typing import Final

WORKLOADS: Final = (
    "matmul",
    "conv",
    "elementwise",
    "tiny-ops",
    "keras-fit",
    "xla-step",
    "xla-elementwise",
)

# For a limit far below the capacity: what libraries divide in plans of their own, what
# kernels divide by the number of threads, and whole steps of training.
OF_CORES: Final = (
    "matmul-256",
    "matmul-1024",
    "matmul-4096",
    "dense",
    "conv",
    "mlp",
    "cnn",
    "lstm",
    "transformer",
    "bincount",
    "xla-step",
    "tiny-ops",
)
