# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Requests of clients: new jobs, changes, previews, and feeds."""
