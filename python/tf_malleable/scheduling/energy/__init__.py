# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Energy and power budgets, as decisions without I/O."""
