# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is said when a training cannot be elastic."""

from __future__ import annotations


class RefusedError(Exception):
    """This training cannot be elastic, or cannot be kept exact; the message says why."""
