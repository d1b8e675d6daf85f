# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Sources of settings: the site's file, the user's file, and environment variables."""

import os

SITE_FILE = "/etc/tf_malleable/config.ini"
_PREFIX = "TF_MALLEABLE_"


def user_file() -> str:
    """Return the path of the user's file: in $XDG_CONFIG_HOME, or else in ~/.config."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification declares relative paths invalid.
    folder = home if home.startswith("/") else os.path.expanduser("~/.config")
    return os.path.join(folder, "tf_malleable", "config.ini")


def variable_of(command: str, option: str) -> str:
    """Return the environment variable for an option of a command."""
    return _PREFIX + f"{command}_{option}".upper().replace(" ", "_").replace("-", "_")


def may_set(command: str) -> bool:
    """Return whether there are settings, of any kind, that may concern a command."""
    variables = variable_of(command, "")
    return any(map(os.path.lexists, (SITE_FILE, user_file()))) or any(
        name.startswith(variables) for name in os.environ
    )
