# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Records of jobs: times, usage, speeds, phases and lessons."""
