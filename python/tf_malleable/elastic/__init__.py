# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Elastic training: members join and leave while it runs, without changing its result."""
