# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Service for the readers of this node: lookups, and copies of what they read."""
