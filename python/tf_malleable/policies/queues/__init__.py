# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Queueing policies: the order of the jobs, and what it is decided by."""
