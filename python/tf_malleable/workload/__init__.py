# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Workloads: many jobs, started at given times and measured."""
