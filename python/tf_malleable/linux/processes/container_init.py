# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Init of a container: a process in front of tfm where tfm is the first of a PID namespace.

The kernel withholds from such a process all signals that it has no handler for, SIGTERM included,
which it would then obey only once its program has set one.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from typing import Final

_INIT: Final = os.path.join(
    os.path.abspath(__file__).rpartition("/linux/")[0], "runtime", "tfm-init"
)
_CANNOT_RUN: Final = 126


def put_init_in_front() -> None:
    """Continue in a child of this process, which becomes the init of its container.

    Signals are blocked until the init waits for them, so that none is lost. Without a built
    tf_malleable, or if there can be no more processes, this process continues itself.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    child = 0
    if os.access(_INIT, os.X_OK):
        with suppress(OSError):
            child = os.fork()
    if not child:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    try:
        os.execv(_INIT, ["tfm-init", str(child)])
    except OSError:
        os._exit(_CANNOT_RUN)  # The child goes with the first process.
