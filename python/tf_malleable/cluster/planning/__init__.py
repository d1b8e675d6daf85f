# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Decides how many workers each training in a cluster has, where, and with how many CPUs. Pure."""
