# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How cores are shared out: pure functions from what is known to an allocation."""
