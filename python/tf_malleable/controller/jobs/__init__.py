# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The live jobs: events, decisions, and how grants are carried out."""
