# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Wrappers of policies: lending, fair shares between users, and power budgets."""
