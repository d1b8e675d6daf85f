# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""llama.cpp's server in a cgroup whose CPU quota changes in the middle of a generation."""
