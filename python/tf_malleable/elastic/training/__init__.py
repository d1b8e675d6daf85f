# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Keras's fit() as a member of an elastic training: shards, state, callbacks, data."""
