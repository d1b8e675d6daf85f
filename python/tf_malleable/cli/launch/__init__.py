# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Launch of programs: tfm run, with arrays, retries and the queue."""
