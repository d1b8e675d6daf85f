# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""``python -m tf_malleable_cli``: tfm, for programs that do not know where it is installed."""

import sys

from tf_malleable_cli import main

if __name__ == "__main__":
    sys.exit(main())
