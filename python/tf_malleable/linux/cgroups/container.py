# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Detection of containers."""

from __future__ import annotations

import os


def in_container() -> bool:
    """Return whether this process seems to be in a container.

    Docker and Podman create a file; Podman and systemd-nspawn set an environment variable;
    Kubernetes sets variables of its own with any container runtime.
    """
    files = ("/.dockerenv", "/run/.containerenv")
    variables = ("container", "KUBERNETES_SERVICE_HOST")
    return any(map(os.path.exists, files)) or any(map(os.environ.get, variables))
