# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Processes under measurement: what runs in one, and the client that starts and asks it."""

from typing import Final

WORKLOADS: Final = ("matmul", "conv", "elementwise", "tiny-ops", "keras-fit", "xla-step")
