# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The policies in virtual time: what would happen, without waiting for it."""
