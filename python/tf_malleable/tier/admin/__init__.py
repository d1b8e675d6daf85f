# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Administration of a tier: status, warm-up, removal and checks of copies."""
