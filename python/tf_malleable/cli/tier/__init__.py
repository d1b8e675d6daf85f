# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm tier: commands for the data tier, which keeps copies of training data on the node."""
