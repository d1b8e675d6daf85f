# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Entry point of jupyter-server-proxy: the page in JupyterLab's launcher.

Jupyter authenticates its users, and reaches the page through a socket that only its user can
access; no second token is needed.
"""

from __future__ import annotations

import sys
from typing import Any


def setup() -> dict[str, Any]:
    """Return the settings with which jupyter-server-proxy starts the page."""
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
