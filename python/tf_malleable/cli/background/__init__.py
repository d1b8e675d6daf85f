# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Jobs in the background: tfm submit, the process that keeps a job, and what outlives a reboot."""
