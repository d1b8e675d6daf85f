# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Sources of settings: the site's file, the user's file, and environment variables."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from collections.abc import Mapping

    Sections = Mapping[str, Mapping[str, str]]

SITE_FILE = "/etc/tf_malleable/config.ini"
_PREFIX = "TF_MALLEABLE_"


def user_file() -> str:
    """Return the path of the user's file: in $XDG_CONFIG_HOME, or else in ~/.config."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification declares relative paths invalid.
    folder = home if home.startswith("/") else os.path.expanduser("~/.config")
    return os.path.join(folder, "tf_malleable", "config.ini")


def _opened(path: str | os.PathLike[str]) -> int:
    """Open a file for reading: the site's, or one that no other user can change or replace."""
    if os.fspath(path) == SITE_FILE:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    # Imported here, because most users have no file.
    from tf_malleable.linux.trusted_folder import open_trusted

    return open_trusted(path, os.O_RDONLY)


def variable_of(command: str, option: str) -> str:
    """Return the environment variable for an option of a command."""
    return _PREFIX + f"{command}_{option}".upper().replace(" ", "_").replace("-", "_")


def read_sections(path: str | os.PathLike[str]) -> Sections | None:
    """Return the sections of a file; None if there is no file.

    Raises:
        ValueError: The file cannot be read or understood; the message says why.
    """
    try:
        # A file in a folder that must not be entered, such as another user's HOME, does not count.
        if not os.path.lexists(path):
            return None
        with open(_opened(path)) as file:
            text = file.read()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file") from None
    # Imported here, because `tfm run` must start fast and most users have no file.
    import configparser

    # No section is the default of all others, as no section name can contain a newline.
    parser = configparser.ConfigParser(
        delimiters=("=",), comment_prefixes=("#",), interpolation=None, default_section="\n"
    )
    try:
        parser.read_string(text, str(path))
    except configparser.Error as error:
        raise ValueError(f"{path}: {' '.join(error.message.split())}") from None
    return {name: dict(parser[name]) for name in parser.sections()}
