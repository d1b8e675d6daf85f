# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Control groups: their files, limits, and what they allow."""
