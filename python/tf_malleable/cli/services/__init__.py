# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Commands that serve: the controller, its policy, the page, and the dialled connection."""
