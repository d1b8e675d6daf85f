# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
from __future__ import annotations

import pytest

from tests.support.kubernetes import schema


def one(below):
    return {"type": "object", "properties": {"x": below}}


def said(value, below, old=None):
    return [f"{cause.field}: {cause.message}" for cause in schema.validate(value, one(below), old)]


@pytest.mark.parametrize(
    ("below", "value", "message"),
    [
        ({"type": "integer"}, "a", 'x in body must be of type integer: "string"'),
        ({"type": "integer"}, True, 'of type integer: "boolean"'),
        ({"type": "integer"}, None, 'of type integer: "null"'),
        ({"type": "string"}, 1, 'of type string: "integer"'),
        ({"type": "integer", "minimum": 1}, 0, "greater than or equal to 1"),
        ({"type": "number", "maximum": 1}, 1.5, "less than or equal to 1"),
        ({"type": "integer", "multipleOf": 4}, 6, "a multiple of 4"),
        ({"type": "string", "enum": ["a", "b"]}, "c", 'supported values: "a", "b"'),
        ({"type": "string", "pattern": "^a"}, "b", "should match '^a'"),
        ({"type": "string", "minLength": 2}, "b", "at least 2 chars"),
        ({"type": "string", "maxLength": 2}, "bbb", "Too long"),
        ({"type": "string", "format": "date-time"}, "yesterday", "must be of type date-time"),
        ({"type": "array", "items": {"type": "integer"}}, ["a"], "x[0] in body must be"),
        ({"type": "array", "maxItems": 1, "items": {}}, [1, 2], "must have at most 1 items"),
        ({"type": "array", "x-kubernetes-list-type": "set", "items": {}}, [1, 1], "Duplicate"),
        ({"type": "object", "required": ["y"]}, {}, "x.y: Required value"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"k": "v"}, "x.k"),
        ({"x-kubernetes-int-or-string": True}, 1.5, 'must be of type integer,string: "number"'),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, True, "anyOf"),
        ({"not": {"type": "integer"}}, 1, "(not)"),
    ],
)
def test_what_is_wrong_is_said_with_its_field(below, value, message):
    (found,) = said({"x": value}, below)
    assert message in found
    assert found.startswith("x")


@pytest.mark.parametrize(
    ("below", "value"),
    [
        ({"type": "integer"}, 2.0),
        ({"type": "integer", "nullable": True}, None),
        ({"type": "number"}, 2),
        ({"type": "string", "format": "date-time"}, "2026-01-02T03:04:05.123456Z"),
        ({"type": "string", "format": "date-time"}, "2026-01-02T03:04:05+01:00"),
        ({"x-kubernetes-int-or-string": True}, "50%"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "a"),
    ],
)
def test_what_is_right(below, value):
    assert said({"x": value}, below) == []


def test_unknown_fields_are_pruned_and_named():
    below = {"type": "object", "properties": {"known": {"type": "integer"}}}
    nested = {"type": "array", "items": below}
    value = {"kind": "K", "metadata": {"any": 1}, "x": [{"known": 1, "other": 2}], "spec": 1}
    kept, unknown = schema.prune(value, one(nested))
    assert kept == {"kind": "K", "metadata": {"any": 1}, "x": [{"known": 1}]}
    assert unknown == ["x[0].other", "spec"]


def test_unknown_fields_are_kept_where_the_schema_says_so():
    below = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert schema.prune({"x": {"a": {"b": 1}}}, one(below)) == ({"x": {"a": {"b": 1}}}, [])


def test_defaults_fill_what_is_missing_at_every_depth():
    below = {
        "type": "object",
        "default": {},
        "properties": {"n": {"type": "integer", "default": 3}, "l": {"type": "array"}},
    }
    assert schema.default({}, one(below)) == {"x": {"n": 3}}
    assert schema.default({"x": {"n": None, "l": []}}, one(below)) == {"x": {"n": 3, "l": []}}


def test_a_rule_about_a_change_is_not_asked_of_what_is_new():
    rule = {"rule": "self == oldSelf", "message": "never"}
    below = {"type": "integer", "x-kubernetes-validations": [rule]}
    assert said({"x": 1}, below) == []
    assert said({"x": 1}, below, {}) == []
    assert said({"x": 1}, below, {"x": 1}) == []
    assert said({"x": 1}, below, {"x": 2}) == ["x: Invalid value: 1: never"]


def test_elements_of_a_map_list_are_compared_by_their_keys():
    rule = {"rule": "self.v == oldSelf.v", "message": "never"}
    item = {"type": "object", "x-kubernetes-validations": [rule]}
    below = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
    }
    old = {"x": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}
    assert said({"x": [{"k": "b", "v": 2}, {"k": "c", "v": 5}]}, below, old) == []
    assert "never" in said({"x": [{"k": "b", "v": 1}]}, below, old)[0]


def bounds(default):
    """Return a schema with a default, and a rule about a field that has one, too."""
    rule = {"rule": "self.n > 1", "message": "too small"}
    return {
        "type": "object",
        "default": default,
        "properties": {"n": {"type": "integer", "default": 3}},
        "x-kubernetes-validations": [rule],
    }


def test_a_default_that_says_all_that_its_rules_read_is_taken():
    assert not list(schema.structural(one(bounds({"n": 2})), "s"))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"type": "string"}, "must be object at the root"),
        (one({}), "properties[x].type: Required value"),
        (one({"type": "array"}), "properties[x].items: Required value"),
        (one({"type": "integer", "default": "a"}), "must be of type integer"),
        # Seen on Kubernetes 1.36.2: rules see a default without the defaults that are nested in it.
        (one(bounds({})), "no such key: n evaluating rule: too small"),
        (one(bounds({"n": 0})), "too small"),
        (one(bounds({"n": 3, "other": 1})), "unknown fields: other"),
        (
            {**one({"type": "integer"}), "x-kubernetes-validations": [{"rule": "self.y > 1"}]},
            "compilation failed: ERROR: undefined field 'y'",
        ),
        (
            one({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}),
            "mutually exclusive",
        ),
    ],
)
def test_schemas_that_no_server_takes(wrong, why):
    found = [f"{cause.field}: {cause.message}" for cause in schema.structural(wrong, "schema")]
    assert any(why in text for text in found), found


@pytest.mark.parametrize(
    ("below", "why"),
    [
        ({"x-kubernetes-validations": [{"rule": "true", "fieldPath": ".b"}]}, "valid path"),
        ({"x-kubernetes-validations": [{"rule": "true", "fieldPath": "a"}]}, "valid path"),
        ({"x-kubernetes-validations": [{"rule": "true", "fieldPath": ".a[0]"}]}, "valid path"),
    ],
)
def test_paths_of_rules_are_held_against_the_schema(below, why):
    given = {"type": "object", "properties": {"a": {"type": "array", "items": {}}}, **below}
    given["properties"]["a"]["items"] = {"type": "string"}
    assert [why in cause.message for cause in schema.structural(given, "s")] == [True]


def test_of_metadata_only_names_can_be_restricted():
    names = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}
    given = {"type": "object", "properties": {"metadata": names}}
    assert not list(schema.structural(given, "s"))
    assert [cause.field for cause in schema.validate({"metadata": {"name": "long"}}, given)] == [
        "metadata.name"
    ]
    names["properties"]["labels"] = {"type": "object"}
    assert [cause.field for cause in schema.structural(given, "s")] == ["s.properties[metadata]"]
