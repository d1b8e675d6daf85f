# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Services: latencies of requests, objectives, and the load that a policy sees."""
