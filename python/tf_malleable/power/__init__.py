# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Power of this host, from meters or an estimate, and remote sources of budgets."""
