# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Workloads to simulate: generated, planned, or from a controller's history."""
