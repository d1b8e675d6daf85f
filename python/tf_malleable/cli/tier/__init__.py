# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm tier: copies of training data near the node."""
