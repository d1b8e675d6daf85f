# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Processes of a training: members that hold its state, and servers."""
