# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Decisions for all jobs at once, and the actions that carry them out."""
