# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Frozen dataclasses for modules that `tfm run` loads: a program waits until they are loaded.

The standard library's module loads inspect, which takes as long as Python itself. Type checkers
take these classes for its dataclasses. So do dataclasses.fields(), replace() and msgspec: what
they look for is made when they do.
"""

from __future__ import annotations

from operator import attrgetter

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
    from typing import Any, TypeVar

    _Class = TypeVar("_Class", bound=type)
else:

    def dataclass(*, frozen: bool) -> Callable[[_Class], _Class]:
        """Return the decorator of a class whose annotations are its fields; there are no others.

        Args:
            frozen: Must be True.
        """
        assert frozen
        return _decorated


class _Fields:
    """What makes a class a dataclass, for the modules that ask."""

    def __get__(self, instance: object, owner: type) -> dict[str, Any]:
        import dataclasses

        body = {name: vars(owner)[name] for name in owner.__annotations__ if name in vars(owner)}
        body["__annotations__"] = owner.__annotations__
        # With a text of its own, which would otherwise be made from the signature.
        twin: type = dataclasses.dataclass(type(owner.__name__, (), {**body, "__doc__": ""}))
        found: dict[str, Any] = vars(twin)["__dataclass_fields__"]
        setattr(owner, "__dataclass_fields__", found)  # noqa: B010 - mypy
        return found


def _decorated(cls: _Class) -> _Class:
    names = tuple(cls.__annotations__)
    defaults = {name: vars(cls)[name] for name in names if name in vars(cls)}
    values_of = attrgetter(*names)
    checks = getattr(cls, "__post_init__", None)

    def __init__(self: object, *values: object, **named: object) -> None:  # noqa: N807 - a method
        state = vars(self)
        state.update(zip(names, values, strict=False))
        if named or len(values) != len(names):
            state.update(named)
            is_once = len(state) == len(values) + len(named)
            for name, default in defaults.items():
                state.setdefault(name, default)
            if not is_once or state.keys() != set(names):
                said = (
                    f"{name}={defaults[name]!r}" if name in defaults else name for name in names
                )
                raise TypeError(f"the arguments are {cls.__name__}({', '.join(said)})")
        if checks is not None:
            checks(self)

    def __eq__(self: object, other: object) -> bool:  # noqa: N807 - a method
        if other.__class__ is not self.__class__:
            return NotImplemented
        return bool(values_of(self) == values_of(other))

    def __hash__(self: object) -> int:  # noqa: N807 - a method
        return hash(values_of(self))

    for method in (__init__, __eq__, __hash__, __repr__, __setattr__, __delattr__):
        setattr(cls, method.__name__, method)
    for name, value in (("__match_args__", names), ("__dataclass_fields__", _Fields())):
        setattr(cls, name, value)
    return cls


def __repr__(self: Any) -> str:  # noqa: ANN401, N807 - a method
    said = (f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{self.__class__.__qualname__}({', '.join(said)})"


def __setattr__(self: object, name: str, value: object) -> None:  # noqa: N807 - a method
    _refuse("assign to", name)


def __delattr__(self: object, name: str) -> None:  # noqa: N807 - a method
    _refuse("delete", name)


def _refuse(what: str, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot {what} field {name!r}")
