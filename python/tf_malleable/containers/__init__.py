# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Containers of Docker, or of Podman behind the same socket, as jobs."""
