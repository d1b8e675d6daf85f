# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Sums of the vectors of all members, the same bits however many there are."""
