# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The command line of demos and benchmarks."""

from __future__ import annotations

import argparse
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Refuses in one sentence, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, and exit with 2."""
        self.exit(2, f"{self.prog}: {message}\n")
