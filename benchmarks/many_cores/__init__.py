# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A machine of many cores, without TensorFlow and without a network, in twelve minutes."""
