# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""For all tests: signals as at a terminal."""

from __future__ import annotations

import signal

# Some tests press Ctrl-C or hang up on programs they start. What started us may have
# had these signals ignored (nohup, a shell's background), which children inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
