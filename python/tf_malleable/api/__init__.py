# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Protocol between the project's processes: messages, paths, and the client."""
