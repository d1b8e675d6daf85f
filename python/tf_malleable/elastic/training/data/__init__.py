# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Examples and batches: their order, shards, and the logs of an epoch."""
