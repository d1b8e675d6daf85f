# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The live page: a process of its own, and to the controller one more client."""
