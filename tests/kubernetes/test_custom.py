# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Custom resources: what their definition refuses, fills in and drops; scale."""

from __future__ import annotations

import copy

import pytest
import yaml

from tests.support.kubernetes import patching
from tests.support.kubernetes.examples import CRD, choir
from tests.support.kubernetes.refusals import RefusedError
from tests.support.kubernetes.requests import Request


@pytest.fixture(autouse=True)
def _defined(client):
    client.create(yaml.safe_load(CRD))


def refused(call, *arguments, **more):
    with pytest.raises(RefusedError) as found:
        call(*arguments, **more)
    return found.value


def causes(error):
    assert (error.code, error.reason) == (422, "Invalid")
    return {cause["field"]: cause["message"] for cause in error.details["causes"]}


def test_a_definition_is_established(client):
    status = client.get("customresourcedefinitions", "choirs.example.com")["status"]
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert status["storedVersions"] == ["v1"]


def test_defaults_are_filled_in(client):
    assert client.create(choir())["spec"] == {
        "suspend": False,
        "singers": {"min": 1, "max": 4},
    }


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"singers": {"min": 0}}, "spec.singers.min", "greater than or equal to 1"),
        ({"singers": {"min": "2"}}, "spec.singers.min", "must be of type integer"),
        ({"singers": {"min": 5, "max": 4}}, "spec.singers.min", "min must not be above max"),
        ({"suspend": "yes"}, "spec.suspend", "must be of type boolean"),
        ({"singers": None}, "spec.singers", "must be of type object"),
    ],
)
def test_what_is_refused_is_named(client, spec, field, message):
    item = choir()
    item["spec"].update(spec)
    assert message in causes(refused(client.create, item))[field]


def test_what_is_missing_is_named(client):
    found = causes(refused(client.create, {**choir(), "spec": {}}))
    assert found.pop("spec.singers") == "Required value"
    assert "some validation rules were not checked" in found.pop("<nil>")
    assert not found


def test_rules_are_not_looked_at_before_the_rest_is_right(client):
    item = choir(singers={"min": 5, "max": 4}, suspend="yes")
    assert sorted(causes(refused(client.create, item))) == ["<nil>", "spec.suspend"]


def test_an_immutable_field(client):
    client.create(choir(hall="big"))
    client.patch("choirs", "one", {"spec": {"suspend": True}})
    found = causes(refused(client.patch, "choirs", "one", {"spec": {"hall": "small"}}))
    assert found == {"spec.hall": 'Invalid value: "small": hall is immutable'}


def test_a_rule_on_a_field_does_not_see_it_come_or_go(client):
    """As in a real server: who wants that refused puts the rule on what holds the field."""
    client.create(choir())
    client.patch("choirs", "one", {"spec": {"hall": "big"}})
    client.patch("choirs", "one", {"spec": {"hall": None}})


def test_unknown_fields_are_dropped_with_a_warning_or_refused(api, client):
    resource = api.catalogue.named("choirs")
    item = choir(tempo=3, template={"any": {"thing": 1}})

    def create(mode):
        query = {"fieldValidation": mode, "dryRun": "All"}
        return api.serve(Request("create", resource, "default", query=query, body=item))

    warned = create("Warn")
    assert warned.warnings == ('unknown field "spec.tempo"',)
    assert "tempo" not in warned.body["spec"]
    assert warned.body["spec"]["template"] == {"any": {"thing": 1}}
    assert create("Ignore").warnings == ()
    assert refused(create, "Strict").message == 'strict decoding error: unknown field "spec.tempo"'
    assert client.list("choirs") == []


def test_an_update_must_say_of_which_version(client):
    made = client.create(choir())
    del made["metadata"]["resourceVersion"]
    found = causes(refused(client.replace, made))
    assert found == {
        "metadata.resourceVersion": "Invalid value: 0: must be specified for an update"
    }


def test_no_strategic_merge(api):
    resource = api.catalogue.named("choirs")
    api.serve(Request("create", resource, "default", body=choir()))
    request = Request("patch", resource, "default", "one", body={}, content_type=patching.STRATEGIC)
    assert refused(api.serve, request).code == 415


def test_status_is_written_apart_and_validated(client):
    made = client.create({**choir(), "status": {"singers": 3}})
    assert "status" not in made
    change = {"status": {"singers": 3, "other": 1}, "metadata": {"labels": {"a": "b"}}}
    changed = client.patch("choirs", "one", change, part="status")
    assert changed["status"] == {"singers": 3}
    assert "labels" not in changed["metadata"]
    found = refused(client.patch, "choirs", "one", {"status": {"singers": "3"}}, part="status")
    assert sorted(causes(found)) == ["<nil>", "status.singers"]


def test_scale(client):
    client.create(choir())
    client.patch("choirs", "one", {"status": {"singers": 2}}, part="status")
    scale = client.get("choirs", "one", part="scale")
    assert (scale["kind"], scale["spec"], scale["status"]) == (
        "Scale",
        {"replicas": 4},
        {"replicas": 2},
    )
    client.patch("choirs", "one", {"spec": {"replicas": 7}}, part="scale")
    found = client.get("choirs", "one")
    assert found["spec"]["singers"]["max"] == 7
    assert found["metadata"]["generation"] == 2
    stale = {"spec": {"replicas": 8}, "metadata": scale["metadata"]}
    assert refused(client.patch, "choirs", "one", stale, part="scale").code == 409
    too_few = {"spec": {"replicas": 0}}
    assert "spec.singers.max" in causes(
        refused(client.patch, "choirs", "one", too_few, part="scale")
    )


def test_without_replicas_there_is_no_scale(client):
    client.create({**choir(), "spec": {"singers": {}}})
    found = refused(client.get, "choirs", "one", part="scale")
    assert found.code == 500
    assert ".spec.singers.max" in found.message


def definition(change):
    crd = copy.deepcopy(yaml.safe_load(CRD))
    crd["metadata"]["name"] = "bands.example.com"
    crd["spec"]["names"] = {"plural": "bands", "kind": "Band"}
    change(crd["spec"])
    return crd


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda spec: spec.pop("group"), "spec.group"),
        (lambda spec: spec["names"].pop("kind"), "spec.names.kind"),
        (lambda spec: spec["names"].update(plural="others"), "metadata.name"),
        (lambda spec: spec["versions"][0].update(storage=False), "spec.versions"),
        (lambda spec: spec["versions"][0].pop("schema"), "spec.versions[0].schema.openAPIV3Schema"),
        (
            lambda spec: spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
                "properties"
            ].update(x={}),
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[x].type",
        ),
    ],
)
def test_definitions_that_are_refused(client, change, field):
    assert field in causes(refused(client.create, definition(change)))


def test_a_new_schema_holds_at_the_next_write(client):
    client.create(choir())
    crd = client.get("customresourcedefinitions", "choirs.example.com")
    singers = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
        "properties"
    ]["singers"]
    singers["properties"]["max"]["maximum"] = 3
    client.replace(crd)
    assert client.get("choirs", "one")["spec"]["singers"]["max"] == 4
    found = refused(client.patch, "choirs", "one", {"spec": {"suspend": True}})
    assert list(causes(found)) == ["spec.singers.max"]
