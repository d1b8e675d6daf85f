# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Names of the host's users."""

from __future__ import annotations

import pwd
from functools import lru_cache


@lru_cache(maxsize=256)
def user_name(uid: int) -> str:
    """Return the user's name, or the user id as text if there is no such user."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
