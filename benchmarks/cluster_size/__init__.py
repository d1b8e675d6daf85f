# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A large cluster in virtual time: elastic trainings as planned, against static ones."""
