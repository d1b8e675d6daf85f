# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The host's users."""

from __future__ import annotations

import pwd
from functools import lru_cache


@lru_cache(maxsize=256)
def user_name(uid: int) -> str:
    """Return a user's name, or the number if there is no such user."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
