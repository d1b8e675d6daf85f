# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Scheduling policies: pure functions from jobs, machine and time to an allocation."""
