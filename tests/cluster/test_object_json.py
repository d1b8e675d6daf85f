# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One object that is nested too deeply takes no others from the operator."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.cluster.kube import object_json

VALUES = st.recursive(
    st.one_of(st.none(), st.integers(), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
)


@pytest.mark.slow
@given(VALUES)
def test_others_are_as_they_were(value):
    deep = "[" * 9990 + "]" * 9990
    text = f'{{"first": {json.dumps(value)}, "deep": {deep}, "last": {json.dumps(value)}}}'
    found = object_json.decode(text)
    assert (found["first"], found["last"]) == (value, value)
    depth = 0
    while found["deep"]:
        found, depth = {"deep": found["deep"][0]}, depth + 1
    assert depth > 100


@pytest.mark.parametrize("text", ["", "{", "[" * 9990, '"a', "[1]]"])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        object_json.decode(text)
