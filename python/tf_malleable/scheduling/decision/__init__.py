# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Decision of one instant: its input, admission, and its outlook."""
