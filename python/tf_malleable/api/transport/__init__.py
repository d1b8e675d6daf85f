# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Transport: addresses, connections, and the exchange by which a job is admitted."""
