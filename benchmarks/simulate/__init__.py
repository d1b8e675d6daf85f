# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How fast the simulator is, and how much memory it takes."""
