# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm elastic: trainings whose workers come and go."""
