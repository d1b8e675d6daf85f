# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The entry point of jupyter-server-proxy: the page in JupyterLab's launcher.

Jupyter asks people who they are, and reaches the page through a socket that only its user can
enter; so no second token is asked for.
"""

from __future__ import annotations

import sys
from typing import Any


def setup() -> dict[str, Any]:
    """Return how jupyter-server-proxy starts the page."""
    return {
        "command": [
            *(sys.executable, "-m", "tf_malleable_cli"),
            *("web", "--unix", "{unix_socket}", "--behind-proxy"),
        ],
        "unix_socket": True,
        "timeout": 30,
        "new_browser_tab": True,
        "launcher_entry": {"title": "CPUs and jobs"},
    }
