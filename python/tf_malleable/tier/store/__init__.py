# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Copies of training data on this node: files, blocks, partial copies, eviction. No network."""
