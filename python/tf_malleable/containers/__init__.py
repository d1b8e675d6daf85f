# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Docker containers as jobs, or Podman's behind a Docker-compatible socket."""
