# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Elastic training: what a member costs against Keras's plain fit()."""
