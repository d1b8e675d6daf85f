# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The operator on a real Kubernetes: reactions, kills, and what it asks of the API server."""
