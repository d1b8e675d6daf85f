# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""State of a training: checkpoints, and messages that carry the state."""
