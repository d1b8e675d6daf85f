# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Membership: which processes take part in which generation, as the coordinator decides."""
