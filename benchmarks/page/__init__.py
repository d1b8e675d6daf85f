# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The live page: how late it is, and what it costs the others."""
