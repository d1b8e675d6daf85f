# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A service beside trainings: its latencies with and without an objective."""
