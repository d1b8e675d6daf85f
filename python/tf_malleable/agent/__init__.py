# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Inside the job: connects to the controller, applies grants, reports progress."""
