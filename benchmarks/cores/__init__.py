# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A limit far below the capacity, as on a host with many cores, against stock TensorFlow."""
