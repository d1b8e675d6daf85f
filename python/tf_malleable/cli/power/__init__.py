# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm power: what hosts draw, and what they may draw."""
