# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Controller: the host daemon that shares a machine's CPUs among jobs."""
