# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""TensorFlow for users of threadpoolctl, who then need not know of us."""

from __future__ import annotations

from typing import Final

from threadpoolctl import LibController

from tf_malleable.runtime import _native, library, limits


class TensorFlowController(LibController):  # type: ignore[misc]
    """Makes threadpool_limits and threadpool_info include TensorFlow.

    One number stands for the intra-op and the inter-op limit. It is cut to what
    the capacity allows, as other libraries do with a number they cannot reach.
    """

    user_api: Final = "tensorflow"
    internal_api: Final = "tf_malleable"
    filename_prefixes: Final = ("libtf_malleable_overlay", "libtensorflow_framework")
    check_symbols: Final = ("tfm_set_threads",)

    def set_additional_attributes(self) -> None:
        """Begin with no limit of threadpoolctl's."""
        self._told = self._before = 0
        self._override: limits.Override | None = None

    def get_num_threads(self) -> int:
        """Return the intra-op limit; before TensorFlow has a pool, the capacity."""
        now = _native.get_threads()
        self._told = int(now.intra or now.intra_max)
        return self._told

    def set_num_threads(self, num_threads: int) -> None:
        """Limit TensorFlow, or undo that if it is the number from before.

        threadpoolctl sets that number back also where it has limited other libraries
        only.
        """
        most = _native.get_threads()
        wanted = max(1, num_threads)
        intra, inter = min(wanted, most.intra_max), min(wanted, most.inter_max)
        if self._override is not None and num_threads == self._before:
            self._override.end()
            self._override = None
        elif self._override is not None:
            _native.set_threads(intra, inter)
        elif num_threads != self._told:
            self._before = self._told
            self._override = limits.Override(intra, inter)

    def get_version(self) -> str:
        """Return the TensorFlow version the limits were built for."""
        return str(_native.tensorflow_version())


def register() -> None:
    """Tell threadpoolctl about TensorFlow, if its threads are malleable."""
    if library.backend() is not None:
        import threadpoolctl

        threadpoolctl.register(TensorFlowController)
