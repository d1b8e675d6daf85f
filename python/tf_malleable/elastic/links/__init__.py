# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Connections between the processes of a training."""
