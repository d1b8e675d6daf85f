# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What tf.config.threading does before and after TensorFlow's start."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import tf_malleable as tfm
from tf_malleable.runtime import limits

config = tf.config.threading
set_intra = config.set_intra_op_parallelism_threads
set_inter = config.set_inter_op_parallelism_threads


def _numbers() -> list[int]:
    return [config.get_intra_op_parallelism_threads(), config.get_inter_op_parallelism_threads()]


def _limits() -> list[int | None]:
    now = tfm.get_threads()
    return [now.intra, now.inter]


def _start() -> None:
    tf.matmul(tf.ones((64, 64)), tf.ones((64, 64)))


def _said(act: Callable[[], object]) -> str:
    try:
        act()
    except RuntimeError as error:
        return str(error)
    return ""


def before_and_after() -> dict[str, Any]:
    """Set numbers before the start and after it."""
    seen: dict[str, Any] = {"at first": _numbers()}
    set_intra(3)
    set_inter(5)
    seen["before the start"] = [_numbers(), _limits()]
    _start()
    seen["at the start"] = [_numbers(), _limits()]
    times = limits.times_set_by_hand()
    set_intra(3)
    seen["repeated"] = limits.times_set_by_hand() - times
    set_intra(2)
    seen["intra"] = [_numbers(), _limits()]
    seen["by hand"] = limits.times_set_by_hand() - times
    tf.compat.v1.config.threading.set_inter_op_parallelism_threads(16)
    seen["inter"] = [_numbers(), _limits(), limits_of_pools()]
    set_intra(3)
    seen["first number again"] = _numbers()
    with tfm.threads(1):
        seen["in a block"] = _numbers()
    tfm.set_threads(4)
    seen["set_threads"] = _numbers()
    set_intra(0)
    set_inter(0)
    seen["unset"] = [_numbers(), _limits(), limits_of_pools()]
    return seen


def limits_of_pools() -> list[int]:
    """Return the limits of TensorFlow's own pools, intra-op first."""
    by_kind = {pool.kind: pool.limit for pool in tfm.pools()}
    return [by_kind["intra_op"], by_kind["inter_op"]]


def with_grants() -> list[list[int]]:
    """Set numbers by hand between a controller's grants."""
    _start()
    seen = []
    for act in (
        lambda: limits.set_by_grant(2),
        lambda: set_intra(5),
        lambda: limits.set_by_grant(3),
        lambda: (set_intra(6), set_inter(7)),
        lambda: set_intra(0),
        lambda: set_inter(0),
    ):
        act()
        seen.append(_numbers())
    return seen


def unset_with_a_first_limit() -> list[list[int]]:
    """Return to what `tfm run --threads` has asked for."""
    _start()
    seen = [_numbers()]
    set_intra(5)
    seen.append(_numbers())
    set_intra(0)
    return [*seen, _numbers()]


def refused(numbers: list[Any]) -> list[Any]:
    """Set numbers that are not allowed; return what is said and the limits then."""
    set_intra(3)
    _start()
    said = [_said(lambda number=number: set_intra(number)) for number in numbers]
    return [said, _numbers()]


def opted_out() -> list[Any]:
    """Do the same where nothing is to be replaced."""
    _start()
    return [_said(lambda: set_intra(2)), _numbers()]
