# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Observed state: pods, nodes, quotas and coordinators' reports. Pure, except for polling."""
