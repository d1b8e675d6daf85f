# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""In a training: processes that come and go while it runs, without changing its result."""
