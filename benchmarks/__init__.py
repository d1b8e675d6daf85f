# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Everything that docs/benchmarks.md reports, and how to measure it again.

From the repository: `python -m benchmarks.single`, `benchmarks.many`,
`benchmarks.containers` and `benchmarks.many.decisions`; each has --help and --list.
`python -m benchmarks.common.tables` prints their results as Markdown tables.
"""
