# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Processes of the host: identity, signals, CPUs and claims."""
