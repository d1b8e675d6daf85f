# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Containers as jobs: Docker's, or Podman's behind a Docker-compatible socket."""
