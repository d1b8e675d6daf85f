# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Other nodes: who they are, who holds which copy, and fetching from them."""
