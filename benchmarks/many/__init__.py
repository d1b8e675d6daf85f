# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Many trainings on one machine: under the controller, and without it."""
