# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What this host draws, by meters or an estimate, and budgets that come from elsewhere."""
