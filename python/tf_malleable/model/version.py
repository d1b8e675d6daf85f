# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Version of this package; the build reads it from here."""

__version__ = "0.9.0"
