# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the ABI promises before there is any pool."""

from __future__ import annotations

import ctypes
import threading

from tests.conformance import abi
from tests.conformance.abi import Library


def names_itself(library: Library) -> None:
    assert library.c.tfm_abi_version() == abi.ABI_VERSION
    assert library.c.tfm_backend() in (b"overlay", b"patched")
    assert library.c.tfm_tensorflow_version().count(b".") == 2


def nothing_is_set_at_first(library: Library) -> None:
    threads = library.get_threads()
    assert (threads.intra, threads.inter) == (0, 0)
    assert (threads.intra_set, threads.inter_set) == (0, 0)
    assert (threads.intra_max, threads.inter_max) == (16, 16)
    assert library.count_pools() == 0
    assert library.wait_settled(0) == abi.SUCCESS


def limits_are_kept_for_pools_to_come(library: Library) -> None:
    assert library.set_threads(3, abi.KEEP) == abi.SUCCESS
    assert library.set_threads(3, abi.KEEP) == abi.NO_CHANGE
    assert library.set_threads(abi.KEEP, 2) == abi.SUCCESS
    assert library.set_threads(abi.KEEP, abi.KEEP) == abi.NO_CHANGE
    threads = library.get_threads()
    assert (threads.intra, threads.inter) == (3, 2)
    assert (threads.intra_set, threads.inter_set) == (3, 2)
    assert library.set_threads(abi.UNSET, abi.UNSET) == abi.SUCCESS
    threads = library.get_threads()
    assert (threads.intra_set, threads.inter_set) == (0, 0)


def the_highest_limit_is_accepted(library: Library) -> None:
    assert library.set_threads(16, 16) == abi.SUCCESS


def limits_out_of_range_change_nothing(library: Library) -> None:
    library.set_threads(3, 2)
    for intra, inter in ((17, 1), (1, 17), (-2, 1), (1, -2), (2**31 - 1, 1), (-(2**31), 1)):
        assert library.set_threads(intra, inter) == abi.ERR_RANGE, (intra, inter)
        threads = library.get_threads()
        assert (threads.intra_set, threads.inter_set) == (3, 2)


def bad_arguments_are_refused(library: Library) -> None:
    c = library.c
    assert c.tfm_get_threads(None) == abi.ERR_ARGUMENT
    for size in (0, ctypes.sizeof(abi.Threads) - 4, ctypes.sizeof(abi.Threads) + 4):
        assert c.tfm_get_threads(abi.Threads(size=size)) == abi.ERR_ARGUMENT
    count = ctypes.c_int(-7)
    pools = (abi.Pool * 1)()
    assert c.tfm_get_pools(None, 0, None) == abi.ERR_ARGUMENT
    assert c.tfm_get_pools(None, 1, count) == abi.ERR_ARGUMENT
    assert c.tfm_get_pools(pools, -1, count) == abi.ERR_ARGUMENT
    assert c.tfm_get_pools(pools, 1, count) == abi.ERR_ARGUMENT
    assert count.value == -7
    for timeout in (-1.0, float("nan")):
        assert library.wait_settled(timeout) == abi.ERR_ARGUMENT
    assert library.wait_settled(float("inf")) == abi.SUCCESS


def a_pool_that_never_was_is_no_pool(library: Library) -> None:
    for pool in (0, 1, 2**64 - 1):
        assert library.set_pool_threads(pool, 1) == abi.ERR_NO_POOL


def any_thread_may_call(library: Library) -> None:
    def call() -> None:
        for number in range(2000):
            results.append(library.set_threads(1 + number % 16, abi.KEEP))
            threads = library.get_threads()
            results.append(0 if 1 <= threads.intra_set <= 16 else -9)

    results: list[int] = []
    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(results) == 8 * 4000
    assert set(results) <= {abi.SUCCESS, abi.NO_CHANGE}
