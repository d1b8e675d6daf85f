# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The tests, in the folders of the package they are about."""
