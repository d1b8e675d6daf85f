# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Shares: numbers of cores, and the CPUs that they become."""
