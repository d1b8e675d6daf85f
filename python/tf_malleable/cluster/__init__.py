# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Kubernetes operator: decides each training's number of workers, their nodes and their CPUs."""
