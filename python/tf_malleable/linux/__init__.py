# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the kernel says and takes: files below /proc and /sys, descriptors, signals."""
