# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The tfm command for a program that knows its Python, not where tfm was installed."""

import sys

from tf_malleable_cli import main

if __name__ == "__main__":
    sys.exit(main())
