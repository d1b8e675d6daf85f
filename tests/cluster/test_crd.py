# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""MalleableJob: what its schema fills in, and which impossible specs it refuses, and where."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.support import ROOT
from tests.support.kubernetes.refusals import RefusedError

JOBS = "malleablejobs"
CRD = yaml.safe_load((ROOT / "deploy/kubernetes/base/crd.yaml").read_text())


def job(**spec: Any) -> dict[str, Any]:
    container = {"name": "train", "image": "a:1", "command": ["tfm", "run", "--", "python", "t.py"]}
    return {
        "apiVersion": "tf-malleable.dev/v1alpha1",
        "kind": "MalleableJob",
        "metadata": {"name": "digits"},
        "spec": {
            "managedBy": "tests/nobody",  # No operator that is there has pods made of it.
            "shards": 8,
            "workers": {"max": 4},
            "template": {"spec": {"containers": [container]}},
            **spec,
        },
    }


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return a job with another value at a path; None takes away what is there."""
    item = job()
    *holders, last = path.split(".")
    below: Any = item["spec"]
    for name in holders:
        below = below[int(name)] if isinstance(below, list) else below.setdefault(name, {})
    if value is None:
        del below[last]
    else:
        below[last] = value
    return item


def causes(call, *arguments, **more) -> dict[str, str]:
    with pytest.raises(RefusedError) as found:
        call(*arguments, **more)
    assert (found.value.code, found.value.reason) == (422, "Invalid")
    said: dict[str, str] = {}
    for cause in found.value.details["causes"]:
        said[cause["field"]] = f"{said.get(cause['field'], '')}{cause['message']}\n"
    said.pop("<nil>", None)  # Where rules could not be checked.
    return said


def test_what_is_not_said_is_filled_in(client):
    spec = client.create(job())["spec"]
    del spec["template"]
    assert spec == {
        "managedBy": "tests/nobody",
        "suspend": False,
        "priority": 0,
        "shards": 8,
        "workers": {"min": 1, "max": 4, "cpu": {"min": 1}},
        "parameterServers": {"min": 0, "max": 0, "cpu": 1},
        "backoffLimit": 6,
    }
    checkpoint = {"path": "/data/digits"}
    other = job(checkpoint=checkpoint)
    other["metadata"]["name"] = "other"
    assert client.create(other)["spec"]["checkpoint"] == {**checkpoint, "everySeconds": 300}


CONTAINER = "template.spec.containers.0"


@pytest.mark.parametrize(
    ("path", "value", "field", "message"),
    [
        ("shards", None, "shards", "Required value"),
        ("shards", 0, "shards", "greater than or equal to 1"),
        ("shards", 257, "shards", "less than or equal to 256"),
        ("shards", 3, "workers.max", "max must not be above shards"),
        ("workers", None, "workers", "Required value"),
        ("workers", {}, "workers.max", "Required value"),
        ("workers.max", 0, "workers.max", "greater than or equal to 1"),
        ("workers.max", 9, "workers.max", "max must not be above shards"),
        ("workers.min", 0, "workers.min", "greater than or equal to 1"),
        ("workers.min", 5, "workers.min", "min must not be above max"),
        ("workers.min", 1.5, "workers.min", "must be of type integer"),
        ("workers.cpu", {"min": 0}, "workers.cpu.min", "greater than or equal to 1"),
        ("workers.cpu", {"min": "0"}, "workers.cpu.min", "at least 10m"),
        ("workers.cpu", {"min": "9m"}, "workers.cpu.min", "at least 10m"),
        ("workers.cpu", {"min": "-1"}, "workers.cpu.min", "should match"),
        ("workers.cpu", {"max": "2Gi"}, "workers.cpu.max", "should match"),
        ("workers.cpu", {"max": 0.5}, "workers.cpu.max", "type integer,string"),
        ("workers.cpu", {"min": 2, "max": "1500m"}, "workers.cpu.min", "min must not be above max"),
        ("workers.cpu", {"max": "0.5"}, "workers.cpu.min", "min must not be above max"),
        ("workers.cpu", {"min": "500m", "max": "750m"}, "workers.cpu.max", "whole number of CPUs"),
        ("workers.cpu", {"min": "1.2", "max": "1.9"}, "workers.cpu.max", "whole number of CPUs"),
        ("workers.cpu", {"min": "2100m", "max": 2}, "workers.cpu.max", "whole number of CPUs"),
        ("parameterServers", {"min": 1}, "parameterServers.min", "min must not be above max"),
        ("parameterServers", {"max": -1}, "parameterServers.max", "greater than or equal to 0"),
        ("parameterServers", {"cpu": "0"}, "parameterServers.cpu", "at least 10m"),
        (
            "coordinator.resources",
            {"requests": {"cpu": "lots"}},
            "coordinator.resources.requests.cpu",
            "should match",
        ),
        ("managedBy", "somebody", "managedBy", "should match"),
        ("priority", 1001, "priority", "less than or equal to 1000"),
        ("suspend", "yes", "suspend", "must be of type boolean"),
        ("backoffLimit", -1, "backoffLimit", "greater than or equal to 0"),
        ("checkpoint", {}, "checkpoint.path", "Required value"),
        ("checkpoint", {"path": "data"}, "checkpoint.path", "should match '^/'"),
        ("checkpoint", {"path": "/a", "everySeconds": 0}, "checkpoint.everySeconds", "equal to 1"),
        ("template", None, "template", "Required value"),
        ("template", {}, "template.spec", "Required value"),
        ("template", {"spec": {}}, "template.spec.containers", "Required value"),
        ("template.spec.containers", [], "template.spec.containers", "at least 1 items"),
        ("template.spec.restartPolicy", "Always", "template.spec.restartPolicy", '"Never"'),
        ("template.spec.nodeSelector", "x", "template.spec.nodeSelector", "must be of type object"),
        ("template.spec.tolerations", ["x"], "template.spec.tolerations[0]", "of type object"),
        ("template.spec.affinity", 1, "template.spec.affinity", "must be of type object"),
        ("template.spec.overhead", [], "template.spec.overhead", "must be of type object"),
        ("template.spec.securityContext", 1, "template.spec.securityContext", "of type object"),
        ("template.spec.initContainers", [{}], "template.spec.initContainers[0].name", "Required"),
        (f"{CONTAINER}.env", [{}], "template.spec.containers[0].env[0].name", "Required value"),
        (
            f"{CONTAINER}.resizePolicy",
            [{}],
            "template.spec.containers[0].resizePolicy[0].resourceName",
            "Required value",
        ),
        (f"{CONTAINER}.image", None, "template.spec.containers[0].image", "Required value"),
        (f"{CONTAINER}.command", None, "template.spec.containers", "must start with tfm, run, --"),
        (f"{CONTAINER}.command", ["python", "t.py"], "template.spec.containers", "must start with"),
        (
            f"{CONTAINER}.command",
            ["tfm", "run", "python", "t.py"],
            "template.spec.containers",
            "must start with tfm, run, --",
        ),
        (
            f"{CONTAINER}.command",
            ["tfm", "run", "--"],
            "template.spec.containers",
            "must have a program after tfm, run, --",
        ),
        (
            f"{CONTAINER}.resources",
            {"limits": {"cpu": "500m"}},
            "template.spec.containers",
            "CPUs of the first container are said in spec.workers.cpu",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_path(client, path, value, field, message):
    found = causes(client.create, changed(path, value))
    assert message in found[f"spec.{field}"]
    assert len(found) <= 2, found  # Nothing but this field, and what is wrong because of it.


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("workers", {"min": 2, "max": 8, "cpu": {"min": "500m", "max": 16}}),
        ("workers.cpu", {"min": "0.25", "max": "1.250"}),
        ("workers.cpu", {"min": "2000m", "max": "2"}),
        ("parameterServers", {"min": 1, "max": 2, "cpu": "250m"}),
        (f"{CONTAINER}.command", ["/opt/venv/bin/tfm", "run", "--", "python"]),
        (f"{CONTAINER}.resources", {"limits": {"memory": "4Gi"}, "requests": {"memory": "4Gi"}}),
        ("template.spec.restartPolicy", "Never"),
        ("coordinator.resources", {"requests": {"cpu": "100m"}, "limits": {"memory": "512Mi"}}),
        ("template.spec.tolerations", [{"operator": "Exists"}]),
        ("template.spec.affinity", {"nodeAffinity": {"any": [1]}, "podAffinity": {"any": 1}}),
        ("template.spec.initContainers", [{"name": "a", "restartPolicy": "Always"}]),
        (f"{CONTAINER}.env", [{"name": "A", "valueFrom": {"any": 1}}]),
        (f"{CONTAINER}.volumeMounts", [{"name": "data", "mountPath": "/data"}]),
    ],
)
def test_what_can_be_is_kept_as_it_is(client, path, value):
    made: Any = client.create(changed(path, value))["spec"]
    for name in path.split("."):
        made = made[int(name)] if isinstance(made, list) else made[name]
    assert made == value


def test_arguments_may_follow_the_command(client):
    item = changed(f"{CONTAINER}.command", ["tfm", "run", "--"])
    item["spec"]["template"]["spec"]["containers"][0]["args"] = ["python", "t.py"]
    client.create(item)


@pytest.mark.parametrize("name", ["a" * 41, "4digits", "digits.one"])
def test_names_that_services_cannot_have_are_refused(client, name):
    item = job()
    item["metadata"]["name"] = name
    assert "metadata.name" in causes(client.create, item)


def test_what_cannot_change_and_what_can(client):
    client.create(job())
    found = causes(client.patch, JOBS, "digits", {"spec": {"shards": 16}})
    assert found == {"spec.shards": "Invalid value: 16: shards is immutable\n"}
    found = causes(client.patch, JOBS, "digits", {"spec": {"managedBy": "a/b"}})
    assert found == {"spec.managedBy": 'Invalid value: "a/b": managedBy is immutable\n'}
    client.patch(JOBS, "digits", {"spec": {"suspend": True, "workers": {"min": 2, "max": 8}}})


def test_scale_sets_the_most_workers_within_the_shards(client):
    client.create(job())
    status = {"selector": "tf-malleable.dev/job=digits", "actual": {"workers": 3, "cpus": 4.5}}
    client.patch(JOBS, "digits", {"status": status}, part="status")
    scale = client.get(JOBS, "digits", part="scale")
    assert scale["spec"] == {"replicas": 4}
    assert scale["status"] == {"replicas": 3, "selector": "tf-malleable.dev/job=digits"}
    client.patch(JOBS, "digits", {"spec": {"replicas": 6}}, part="scale")
    assert client.get(JOBS, "digits")["spec"]["workers"]["max"] == 6
    for replicas in (0, 9):
        wanted = {"spec": {"replicas": replicas}}
        assert "spec.workers.max" in causes(client.patch, JOBS, "digits", wanted, part="scale")


STATUS = {
    "phase": "Running",
    "observedGeneration": 1,
    "generation": 3,
    "selector": "tf-malleable.dev/job=digits",
    "startedAt": "2026-01-01T00:00:00Z",
    "endedAt": "2026-01-01T01:00:00Z",
    "failures": 0,
    "desired": {"cpus": 8, "workers": 4},
    "granted": {"cpus": 4, "workers": 2},
    "actual": {"cpus": 3.5, "workers": 2},
    "workers": [{"pod": "digits-0", "node": "one", "granted": 2, "actual": 1.5, "shards": 4}],
    "parameterServers": [{"pod": "digits-s0", "node": "one", "granted": 1, "actual": 1}],
    "progress": {"step": 10, "steps": 100, "stepsPerSecond": 4.25},
    "rescales": [
        {
            "at": "2026-01-01T00:01:00Z",
            "from": {"cpus": 2, "workers": 1},
            "to": {"cpus": 4, "workers": 2},
            "pauseSeconds": 0.05,
            "reason": "join",
        }
    ],
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "Training",
            "message": "",
        }
    ],
}


def test_the_whole_status_can_be_written(client):
    client.create(job())
    assert client.patch(JOBS, "digits", {"status": STATUS}, part="status")["status"] == STATUS


def test_columns_are_about_fields_that_there_are():
    version = CRD["spec"]["versions"][0]
    for column in version["additionalPrinterColumns"]:
        schema = version["schema"]["openAPIV3Schema"]
        path = column["jsonPath"]
        if path == ".metadata.creationTimestamp":
            continue
        for name in path.strip(".").split("."):
            schema = schema["properties"][name]
        assert schema["type"] == column["type"], column


def described(schema: dict[str, Any], path: str):
    for name, below in schema.get("properties", {}).items():
        yield f"{path}.{name}", below
        yield from described(below, f"{path}.{name}")


def test_fields_of_the_spec_are_described():
    schema = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    obvious = ("containers.", "metadata.")
    for path, below in described(schema, "spec"):
        if ".template." not in path or not any(each in path for each in obvious):
            assert below.get("description") or ".template.spec.containers" in path, path
