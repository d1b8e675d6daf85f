# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Integration with threadpoolctl, for programs that already use it."""

from __future__ import annotations

from typing import Final

from threadpoolctl import LibController

from tf_malleable.runtime import _native, library, limits


class TensorFlowController(LibController):  # type: ignore[misc]
    """Adds TensorFlow to threadpool_limits and threadpool_info.

    The number applies to both the intra-op and the inter-op limit. A number above the
    capacity is reduced to the capacity, as other libraries do.
    """

    user_api: Final = "tensorflow"
    internal_api: Final = "tf_malleable"
    filename_prefixes: Final = ("libtf_malleable_overlay", "libtensorflow_framework")
    check_symbols: Final = ("tfm_set_threads",)

    def set_additional_attributes(self) -> None:
        """Initialize the state: no limit set by threadpoolctl."""
        self._told = self._before = 0
        self._override: limits.Override | None = None

    def get_num_threads(self) -> int:
        """Return the intra-op limit, or the capacity while TensorFlow has no pool."""
        now = _native.get_threads()
        self._told = int(now.intra or now.intra_max)
        return self._told

    def set_num_threads(self, num_threads: int) -> None:
        """Set the limits, or end the override if this is the number from before it.

        threadpoolctl restores that number even if it has limited only other libraries.
        """
        most = _native.get_threads()
        wanted = max(1, num_threads)
        intra, inter = min(wanted, most.intra_max), min(wanted, most.inter_max)
        if self._override is not None and num_threads == self._before:
            self._override.end()
            self._override = None
        elif self._override is not None:
            self._override.change(intra, inter)
        elif num_threads != self._told:
            self._before = self._told
            self._override = limits.Override(intra, inter)

    def get_version(self) -> str:
        """Return the TensorFlow version that the C ABI was built for."""
        return str(_native.tensorflow_version())


def register() -> None:
    """Register TensorFlow with threadpoolctl if its threads are malleable."""
    if library.backend() is not None:
        import threadpoolctl

        threadpoolctl.register(TensorFlowController)
