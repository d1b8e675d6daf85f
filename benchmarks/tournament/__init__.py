# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""All policies, and each job with the same cores from start to end, on a corpus of workloads."""
