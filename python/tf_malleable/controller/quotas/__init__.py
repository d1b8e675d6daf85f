# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Quotas of users: their file, and the checks against it."""
