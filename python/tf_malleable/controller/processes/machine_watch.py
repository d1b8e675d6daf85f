# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Machine watch: follows the CPUs that the controller may share out.

CPUs go offline and come back, and the controller's cpuset, affinity or quota may be changed.
The controller must not grant CPUs that it may not use itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tf_malleable.controller.clock import until_next
from tf_malleable.linux import topology
from tf_malleable.linux.cgroups.effective_cpus import EffectiveCpus, Warnings
from tf_malleable.linux.processes.priority import unpinned_cpus, unpinned_thread
from tf_malleable.model import Cpuset, Machine

_SECONDS = 0.5

_log = logging.getLogger(__name__)


class MachineWatch:
    """CPUs that may be shared out. Not thread-safe. Must be created after raise_priority().

    Args:
        wanted: CPUs to share out; None for all that may be used.
    """

    def __init__(self, wanted: Cpuset | None) -> None:
        self._wanted = wanted
        warnings = Warnings(lambda text: _log.warning("%s", text))
        self._effective = EffectiveCpus(warnings, thread=unpinned_thread())

    def machine(self) -> Machine:
        """Return the CPUs that may be shared out now, possibly none."""
        return topology.present(self._wanted, unpinned_cpus(), self._effective.read())

    async def follow(self, share_out: Callable[[Machine], None]) -> None:
        """Call a function with the machine whenever it may have changed, until cancelled."""
        while True:
            await asyncio.sleep(until_next(_SECONDS))
            try:
                if self._effective.may_have_changed():
                    share_out(self.machine())
            except Exception:
                _log.exception("cannot follow the CPUs of this machine")
