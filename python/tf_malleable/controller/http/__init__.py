# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""HTTP API of the controller, on a Unix socket."""
