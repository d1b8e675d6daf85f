# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Pure scheduling logic: decisions, job records, accounting, metrics and learning."""
