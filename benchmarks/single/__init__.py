# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One process: tf_malleable against stock TensorFlow, and how fast limits change."""
