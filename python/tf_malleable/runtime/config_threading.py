# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tf.config.threading on a running TensorFlow.

Stock TensorFlow takes these numbers before its start only: later, each set_* raises a RuntimeError,
and each get_* returns what was set then, or 0. As limits can change and are known, set_* changes
the limit and get_* returns it. Before the start, all keep TensorFlow's own meaning.

What is replaced is not these functions, which programs may have imported, but the two properties of
TensorFlow's context that they call.
"""

from __future__ import annotations

import sys
from typing import Final, Protocol

from tf_malleable.model import NotMalleableError
from tf_malleable.runtime import environment, library, limits
from tf_malleable.runtime.post_import_hook import after_import

_MODULE: Final = "tensorflow.python.eager.context"
# Properties of the context by the index of the limit.
_PROPERTIES: Final = ("intra_op_parallelism_threads", "inter_op_parallelism_threads")


class _Context(Protocol):
    """What is used of TensorFlow's context, of the class that has the properties.

    Attributes:
        _context_handle: None until TensorFlow has started.
    """

    _context_handle: object


def install() -> None:
    """Install it as soon as the program imports TensorFlow, unless the user has turned it off.

    Raises:
        ValueError: TF_MALLEABLE_TF_CONFIG_THREADING is neither 0 nor 1.
    """
    if environment.tf_config_threading():
        after_import(_MODULE, _replace_properties)


def _replace_properties() -> None:
    context = sys.modules[_MODULE].Context
    for kind, name in enumerate(_PROPERTIES):
        stock = vars(context).get(name)
        if isinstance(stock, property):
            setattr(context, name, _replaced(stock, kind, name))


def _replaced(stock: property, kind: int, name: str) -> property:
    """Return a property of the context that also works after TensorFlow's start.

    Args:
        stock: TensorFlow's own property.
        kind: Index of the limit.
        name: The property's name.
    """

    def get(self: _Context) -> object:
        number = limits.in_force()[kind] if _is_malleable(self) else 0
        return number or stock.__get__(self)

    def set_(self: _Context, number: object) -> None:
        # What a program repeats is no change, as in stock TensorFlow, and ends no following.
        is_repeated = number == getattr(self, f"_{name}") and limits.times_set_by_hand() == 0
        if is_repeated or not _is_malleable(self):
            stock.__set__(self, number)
        else:
            limits.set_or_unset(kind, _checked(number, kind, name))

    return property(get, set_, doc=stock.__doc__)


def _is_malleable(context: _Context) -> bool:
    """Return whether TensorFlow has started and limits take effect."""
    if context._context_handle is None:
        return False
    try:
        library.require()
    except NotMalleableError:
        return False
    return True


def _checked(number: object, kind: int, name: str) -> int:
    """Return a number as an int; raise RuntimeError, as stock TensorFlow, if it is not allowed."""
    try:
        return limits.checked(name, number, limits.highest()[kind], lowest=0)
    except ValueError as error:
        raise RuntimeError(
            f"once TensorFlow has started, {error}; TF_MALLEABLE_MAX_THREADS sets the highest"
        ) from None
