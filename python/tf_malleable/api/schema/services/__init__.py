# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Messages about services: the latencies of their requests."""
