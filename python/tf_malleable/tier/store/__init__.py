# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Store of copies on this node: layout, blocks, partial copies, eviction. No network."""
