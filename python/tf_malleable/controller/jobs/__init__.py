# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The live jobs: what happens to them, and how grants are carried out."""
