# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Power of the host and of its areas: budgets, and what keeps them."""
