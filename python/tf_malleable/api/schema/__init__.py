# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Schema of the API: requests, answers, events and streamed lines."""
