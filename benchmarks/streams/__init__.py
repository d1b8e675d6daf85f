# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Policies on streams of random jobs, in many settings that no policy was tuned to."""
