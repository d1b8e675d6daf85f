# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""For how long tests wait for what must happen."""

from __future__ import annotations

from typing import Final

# Seconds. A loaded machine is ten times slower than an idle one, and only a failure waits so long.
DEADLINE: Final = 120.0
