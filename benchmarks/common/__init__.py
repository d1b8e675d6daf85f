# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the benchmarks share: command line, statistics, rows, figure, processes, runs."""
