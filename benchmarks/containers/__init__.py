# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Docker containers whose CPUs change: by hand, and under the controller."""
