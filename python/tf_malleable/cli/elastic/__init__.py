# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Command group `tfm elastic`: trainings whose members change while they run."""
