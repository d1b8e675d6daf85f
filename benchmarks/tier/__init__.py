# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trainings' reads with and without data tiers, over a slow source; see __main__."""
