# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
from __future__ import annotations

import pytest

from tests.support.kubernetes import rules
from tests.support.kubernetes.rules import RuleError

SELF = {"min": 2, "max": 3, "name": "abc", "list": [1, 2, 3], "cpu": "500m", "map": {"k": "v"}}


@pytest.mark.parametrize(
    "rule",
    [
        "self.min <= self.max",
        "!(self.min > self.max) && self.min != self.max",
        "!has(self.none) || self.none > 3",
        "self.none > 3 || self.min == 2",  # What decides hides the other side's error.
        "has(self.max) ? self.max == 3 : false",
        "self.name.startsWith('a') && self.name.matches('^[a-c]+$') && size(self.name) == 3",
        "self.list.all(x, x > 0) && self.list.exists(x, x == 2) && !self.list.exists(x, x > 3)",
        "self.list.map(x, x * 2) == [2, 4, 6] && self.list.filter(x, x > 1).size() == 2",
        "self.list.exists_one(x, x == 1)",
        "2 in self.list && 'k' in self.map && self.map['k'] == \"v\"",
        "quantity(self.cpu).compareTo(quantity('0.5')) == 0",
        "quantity(self.cpu).isLessThan(quantity('1'))",
        "self.min + 1 * 2 - 4 / 3 == 3 && -7 / 2 == -3 && 7 % 4 == 3",
        "self.min * 1 <= 2 && self.max - -1 == 4",
        "oldSelf.min == self.min",
    ],
)
def test_rules_that_hold(rule):
    assert rules.parse(rule).evaluate(SELF, SELF) is True


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("self.none > 3", "no such key: none"),
        ("self.min < 'a'", "no such overload"),
        ("self.min && true", "no such overload"),
        ("self.list[7] == 1", "no such key: 7"),
        ("frobnicate(self.min)", "undeclared reference to 'frobnicate'"),
        ("quantity(self.name).isLessThan(quantity('1'))", "quantities must match"),
    ],
)
def test_rules_that_fail(rule, why):
    with pytest.raises(RuleError, match=why):
        rules.parse(rule).evaluate(SELF)


@pytest.mark.parametrize("text", ["self.min <=", "self..min", "(self.min", "self.min # 2", "1 2"])
def test_what_is_no_rule(text):
    with pytest.raises(RuleError, match="Syntax error"):
        rules.parse(text)


def test_only_rules_about_a_change_are_transitions():
    assert rules.parse("self == oldSelf").transition
    assert not rules.parse("self.min == 1").transition


SCHEMA = {
    "type": "object",
    "properties": {
        "min": {"type": "integer"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {}}}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("self.minimum > 1", "undefined field 'minimum'"),
        ("self.min.x > 1", "does not support field selection"),
        ("self.list.all(one, one.b > 1)", "undefined field 'b'"),
        ("other.min > 1", "undeclared reference to 'other'"),
    ],
)
def test_rules_are_held_against_the_schema(rule, why):
    with pytest.raises(RuleError, match=why):
        rules.check(rules.parse(rule), SCHEMA)


def test_rules_about_fields_there_are():
    rules.check(rules.parse("self.list.all(one, one.a > 1) && self.any.what == 1"), SCHEMA)
