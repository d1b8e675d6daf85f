# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Lets every Python that tests start import TensorFlow and Keras in half of the time."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any


class _Quick:
    """An import hook for whichever of the two comes first."""

    _names = frozenset(("keras", "tensorflow"))

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in self._names:
            return None
        self._names = frozenset()
        spec = PathFinder.find_spec(name, path)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            execute = loader.exec_module

            def execute_quickly(module: ModuleType) -> None:
                import runpy

                with runpy.run_path(str(_QUICK))["quick_imports"]():
                    execute(module)

            loader.exec_module = execute_quickly
        return spec


_QUICK = Path(__file__).parents[1] / "quick_import.py"
# After the hooks of ours that only notice such an import.
sys.meta_path.insert(sys.meta_path.index(PathFinder), _Quick())
