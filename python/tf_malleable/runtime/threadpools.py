# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Integration with threadpoolctl, for programs that already use it."""

from __future__ import annotations

import threading
from typing import Final

from threadpoolctl import LibController

from tf_malleable.runtime import _native, library, limits


class _Told(int):
    """A number of threads, as told to one caller.

    threadpoolctl asks for the number before it limits it, and passes this very object when it
    restores it. That tells apart limits which overlap, and which may all have the same number.

    Attributes:
        teller: The mark of the TensorFlowController that has told the number.
        override: The limit that was set after it was told; None if there is none.
    """

    teller: object = None
    override: limits.Override | None = None

    def restore(self) -> None:
        """End the limit that was set after this number was told, if any."""
        override, self.override = self.override, None
        if override is not None:
            override.end()

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)


class _LastTold(threading.local):
    """The number that was last told to this thread."""

    here: _Told | None = None


class TensorFlowController(LibController):  # type: ignore[misc]
    """Adds TensorFlow to threadpool_limits and threadpool_info.

    The number applies to both the intra-op and the inter-op limit. A number above the
    capacity is reduced to the capacity, as other libraries do.
    """

    user_api: Final = "tensorflow"
    internal_api: Final = "tf_malleable"
    filename_prefixes: Final = ("libtf_malleable_overlay", "libtensorflow_framework")
    check_symbols: Final = ("tfm_set_threads",)
    # threadpool_info() shows what is in the instance's __dict__.
    __slots__ = ("_last", "_last_anywhere", "_mark")

    def set_additional_attributes(self) -> None:
        """Initialize the state: nothing told, no limit set by threadpoolctl."""
        self._mark = object()
        self._last = _LastTold()
        self._last_anywhere = _Told()

    def get_num_threads(self) -> int:
        """Return the intra-op limit, or the capacity while TensorFlow has no pool."""
        now = _native.get_threads()
        told = _Told(now.intra or now.intra_max)
        told.teller = self._mark
        self._last.here = self._last_anywhere = told
        return told

    def set_num_threads(self, num_threads: int) -> None:
        """Set the limits, or end those that were set after this number was told.

        threadpoolctl restores the number even if it has limited only other libraries. A program
        without one of its limiters may restore a copy of the number.
        """
        if isinstance(num_threads, _Told) and num_threads.teller is self._mark:
            num_threads.restore()
            return
        told = self._to_be_limited()
        if told.override is not None and num_threads == told:
            told.restore()
            return
        most = _native.get_threads()
        wanted = max(1, num_threads)
        intra, inter = min(wanted, most.intra_max), min(wanted, most.inter_max)
        if told.override is None:
            told.override = limits.Override(intra, inter)
        else:
            told.override.change(intra, inter)

    def _to_be_limited(self) -> _Told:
        """Return the number that was told before the limit that is to be set now.

        It is the last one of this thread, or else of another one that has set no limit since.
        """
        if self._last.here is not None:
            return self._last.here
        anywhere = self._last_anywhere
        return anywhere if anywhere.override is None else _Told()

    def get_version(self) -> str:
        """Return the TensorFlow version that the C ABI was built for."""
        return str(_native.tensorflow_version())


def register() -> None:
    """Register TensorFlow with threadpoolctl if its threads are malleable."""
    if library.backend() is not None:
        import threadpoolctl

        threadpoolctl.register(TensorFlowController)
