# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Quick dataclasses are those of the standard library, to every caller."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import msgspec
import pytest

from tf_malleable.quick_dataclass import dataclass


@dataclass(frozen=True)
class Quick:
    """A point."""

    x: int
    names: tuple[str, ...] = ()
    least: float | None = None

    def __post_init__(self):
        if self.x < 0:
            raise ValueError("x must be at least 0")


@dataclasses.dataclass(frozen=True)
class Standard:
    """A point."""

    x: int
    names: tuple[str, ...] = ()
    least: float | None = None

    def __post_init__(self):
        if self.x < 0:
            raise ValueError("x must be at least 0")


ARGUMENTS = [
    ((1,), {}),
    ((1, ("a",)), {}),
    ((1, ("a",), 0.5), {}),
    ((1,), {"least": 2.0}),
    ((), {"least": 2.0, "x": 3}),
    ((), {"names": ("b",), "x": 3}),
]


@pytest.mark.parametrize(("values", "named"), ARGUMENTS)
def test_what_one_is(values, named):
    quick, standard = Quick(*values, **named), Standard(*values, **named)
    assert repr(quick) == repr(standard).replace("Standard", "Quick")
    assert hash(quick) == hash(standard)
    assert quick == Quick(*values, **named)
    assert quick != standard
    assert (quick == Quick(9)) == (standard == Standard(9))
    assert dataclasses.asdict(quick) == dataclasses.asdict(standard)
    assert dataclasses.is_dataclass(quick)
    assert dataclasses.astuple(dataclasses.replace(quick, x=7)) == (7, quick.names, quick.least)
    assert msgspec.json.encode(quick) == msgspec.json.encode(standard)
    assert msgspec.convert(msgspec.to_builtins(quick), Quick) == quick
    assert copy.deepcopy(quick) == pickle.loads(pickle.dumps(quick)) == quick
    match quick:
        case Quick(x, names):
            assert (x, names) == (quick.x, quick.names)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ((), {}),
        ((1, (), None, 4), {}),
        ((1,), {"x": 1}),
        ((1,), {"y": 1}),
        ((1, ()), {"y": 1}),
        ((), {"names": ()}),
    ],
)
def test_what_is_no_call(values, named):
    for each in (Quick, Standard):
        with pytest.raises(TypeError):
            each(*values, **named)


def test_checks_and_fields():
    with pytest.raises(ValueError, match="at least 0"):
        Quick(-1)
    with pytest.raises(ValueError, match="at least 0"):
        dataclasses.replace(Quick(1), x=-1)
    fields, standard = dataclasses.fields(Quick), dataclasses.fields(Standard)
    assert [(f.name, f.type, f.default) for f in fields] == [
        (f.name, f.type, f.default) for f in standard
    ]
    schema = msgspec.json.schema(Quick)
    assert schema["$defs"]["Quick"] == {
        **msgspec.json.schema(Standard)["$defs"]["Standard"],
        "title": "Quick",
    }


def test_one_is_frozen():
    one = Quick(1)
    for change in (lambda: setattr(one, "x", 2), lambda: delattr(one, "x")):
        with pytest.raises(dataclasses.FrozenInstanceError, match="field 'x'"):
            change()
    assert one == Quick(1)
