# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Pod template: checks of those fields that the operator reads.

The API server checks them only when a pod is made of the template, which is too late: the operator
has read them by then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from tf_malleable.cluster import quantities

_Check = Callable[[Any, str], None]
_LONGEST: Final = 80


def check(template: object) -> None:
    """Check the template of a job's pods.

    Raises:
        ValueError: A field has another type than in a pod; the message names its path.
    """
    _TEMPLATE(template, "spec.template")


def _wrong(value: object, path: str, wanted: str) -> ValueError:
    said = repr(value)
    short = said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"
    return ValueError(f"{path} must be {wanted}, not {short}")


def _text(value: object, path: str) -> None:
    if not isinstance(value, str):
        raise _wrong(value, path, "a text")


def _quantity(value: object, path: str) -> None:
    is_number = isinstance(value, str | int | float)
    try:
        quantities.number(value if is_number else None)
    except ValueError:
        raise _wrong(value, path, "a quantity") from None


def _each(of: _Check, value: object, path: str) -> None:
    if not isinstance(value, list):
        raise _wrong(value, path, "a list")
    for place, one in enumerate(value):
        of(one, f"{path}[{place}]")


def _values(of: _Check, value: object, path: str) -> None:
    if not isinstance(value, dict):
        raise _wrong(value, path, "an object")
    for name, one in value.items():
        of(one, f"{path}.{name}")


def _fields(of: Mapping[str, _Check], needed: Collection[str], value: object, path: str) -> None:
    if not isinstance(value, dict):
        raise _wrong(value, path, "an object")
    for name, inner in of.items():
        if value.get(name) is not None:
            inner(value[name], f"{path}.{name}")
        elif name in needed:
            raise ValueError(f"{path}.{name} is missing")


def _object(needed: Collection[str] = (), **of: _Check) -> _Check:
    return partial(_fields, of, needed)


_TEXTS: Final = partial(_values, _text)
_QUANTITIES: Final = partial(_values, _quantity)
_ANY: Final = _object()
_CONTAINER: Final = _object(
    ("name",),
    name=_text,
    env=partial(_each, _object(("name",), name=_text)),
    resources=_object(requests=_QUANTITIES, limits=_QUANTITIES),
    resizePolicy=partial(_each, _object(("resourceName",), resourceName=_text)),
    securityContext=_ANY,
)
_ASKED: Final = partial(
    _each,
    _object(("key", "operator"), key=_text, operator=_text, values=partial(_each, _text)),
)
_TERM: Final = _object(matchExpressions=_ASKED, matchFields=_ASKED)
_NODES: Final = _object(
    requiredDuringSchedulingIgnoredDuringExecution=_object(nodeSelectorTerms=partial(_each, _TERM))
)
_TOLERATION: Final = _object(key=_text, operator=_text, value=_text, effect=_text)
_SPEC: Final = _object(
    ("containers",),
    containers=partial(_each, _CONTAINER),
    initContainers=partial(_each, _CONTAINER),
    nodeSelector=_TEXTS,
    tolerations=partial(_each, _TOLERATION),
    affinity=_object(nodeAffinity=_NODES),
    overhead=_QUANTITIES,
    securityContext=_ANY,
)
_TEMPLATE: Final = _object(
    ("spec",), metadata=_object(labels=_TEXTS, annotations=_TEXTS), spec=_SPEC
)
