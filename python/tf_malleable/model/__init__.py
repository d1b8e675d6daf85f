# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Plain data that the rest of the package passes around. No I/O."""

from tf_malleable.model.errors import NotMalleableError
from tf_malleable.model.pool import Pool, PoolKind
from tf_malleable.model.threads import Threads

__all__ = ["NotMalleableError", "Pool", "PoolKind", "Threads"]
