# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Allreduce whose sums have the same bits for any number of members."""
