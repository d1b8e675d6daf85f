# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The controller's HTTP API on a Unix socket."""
