# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Agent inside the job's process: connects to the controller, applies grants, reports progress."""
