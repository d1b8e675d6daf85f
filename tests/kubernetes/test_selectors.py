# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
from __future__ import annotations

from fractions import Fraction

import pytest

from tests.support.kubernetes import quantities, selectors
from tests.support.kubernetes.refusals import RefusedError


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("a=1", True),
        ("a==1,b=2", True),
        ("a!=1", False),
        ("c!=1", True),
        ("a in (1, 3),b", True),
        ("a notin (1,3)", False),
        ("!c", True),
        ("!a", False),
        ("example.com/x", False),
    ],
)
def test_label_selectors(selector, matches):
    assert selectors.labels(selector)({"a": "1", "b": "2"}) is matches


def test_a_selector_that_cannot_be_parsed_is_400():
    with pytest.raises(RefusedError, match="unable to parse requirement") as refused:
        selectors.labels("a=1,,b~2")
    assert refused.value.code == 400


def test_field_selectors():
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
    of_pods = ("", "pods")
    assert selectors.fields(of_pods, "spec.nodeName=n,status.phase!=Failed")(pod)
    assert not selectors.fields(of_pods, "metadata.name=q")(pod)
    assert selectors.fields(of_pods, "spec.nodeName=")({"metadata": {"name": "p"}, "spec": {}})
    with pytest.raises(RefusedError, match="field label not supported"):
        selectors.fields(of_pods, "spec.hostname=x")


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ({"key": "a", "operator": "In", "values": ["5"]}, True),
        ({"key": "a", "operator": "NotIn", "values": ["5"]}, False),
        ({"key": "a", "operator": "Exists"}, True),
        ({"key": "b", "operator": "DoesNotExist"}, True),
        ({"key": "a", "operator": "Gt", "values": ["4"]}, True),
        ({"key": "a", "operator": "Lt", "values": ["4"]}, False),
        ({"key": "b", "operator": "Gt", "values": ["4"]}, False),
    ],
)
def test_expressions(expression, matches):
    assert selectors.matches({"matchExpressions": [expression]}, {"a": "5"}) is matches


def test_an_empty_selector_matches_all_and_none_nothing():
    assert selectors.matches({}, {})
    assert not selectors.matches(None, {})


@pytest.mark.parametrize(
    ("quantity", "value", "written"),
    [
        ("0.5", Fraction(1, 2), "500m"),
        ("1000m", Fraction(1), "1"),
        (2, Fraction(2), "2"),
        ("2000", Fraction(2000), "2k"),
        ("1024Ki", Fraction(1 << 20), "1Mi"),
        ("1.5Gi", Fraction(3 << 29), "1536Mi"),
        ("1e3", Fraction(1000), "1k"),
        ("0", Fraction(0), "0"),
    ],
)
def test_quantities(quantity, value, written):
    assert quantities.parse(quantity) == value
    assert quantities.canonical(quantity) == written


@pytest.mark.parametrize("text", ["", "1 Gi", "five", "1mm", True, None, "1..5"])
def test_what_is_no_quantity(text):
    with pytest.raises(ValueError, match="quantities must match"):
        quantities.parse(text)
