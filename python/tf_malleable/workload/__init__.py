# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Runs many jobs at given times and measures them."""
