# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The live web page: a process of its own, and one more client of the controller."""
