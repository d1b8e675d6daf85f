# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""OpenMP programs whose limit is changed by the hook."""
