# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""In the worker: an unmodified Keras training becomes one member of an elastic training."""
