# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""From what is known of jobs to grants, and what is counted and learned of them. Pure."""
