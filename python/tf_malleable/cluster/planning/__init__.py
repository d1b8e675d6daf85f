# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Planner: each training's number of workers, their nodes and their CPUs. Pure."""
