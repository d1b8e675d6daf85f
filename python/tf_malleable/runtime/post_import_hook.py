# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Post-import hooks: functions that are called when a program has imported a module."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:  # It imports importlib.resources, and with it tempfile.
    import importlib.abc


def after_import(module: str, then: Callable[[], None]) -> None:
    """Call a function once a module has been imported, now if it has been already.

    Args:
        module: Full name of the module, which must be a file or a package.
        then: The function. What it raises, the import raises.
    """
    if module in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Finder(module, then))


class _Finder:
    """Import hook that finds no module, but runs a callback after the import of one."""

    def __init__(self, module: str, then: Callable[[], None]) -> None:
        self._module = module
        self._then = then
        self._is_done = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec that the path finder finds, with a loader that also runs the callback."""
        if fullname != self._module or self._is_done:
            return None
        self._is_done = True
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = cast("importlib.abc.Loader", _Loader(spec.loader, self._then))
        return spec


class _Loader:
    def __init__(self, inner: Any, then: Callable[[], None]) -> None:
        self._inner = inner
        self._then = then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Create the module as the inner loader does."""
        module: ModuleType | None = self._inner.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, then run the callback."""
        self._inner.exec_module(module)
        self._then()
