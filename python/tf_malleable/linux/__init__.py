# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Linux interfaces: files below /proc and /sys, descriptors, CPU affinity, signals."""
