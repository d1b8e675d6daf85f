# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What processes of ours say to each other: messages, paths, and the way to send them."""
