# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Observed state: pods, nodes and quotas, and what coordinators report. Pure, but for polling."""
