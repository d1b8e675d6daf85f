# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Checks of what can be trained elastically."""
