# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Objects of S3 as a source: an endpoint on this host that answers from copies."""
