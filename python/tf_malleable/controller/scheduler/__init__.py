# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Scheduler loop: job table, admission, and decisions."""
