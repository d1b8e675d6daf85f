# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The operator: trainings as pods of a fake cluster on one machine."""
