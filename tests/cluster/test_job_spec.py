# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
from __future__ import annotations

import re

import pytest

from tests.support.operators import job
from tf_malleable.cluster import quantities, resource_names
from tf_malleable.cluster.job_spec import SpecError, parse, seconds_of


@pytest.mark.parametrize(
    ("text", "number"),
    [("500m", 0.5), (2, 2.0), ("1.5", 1.5), ("2Gi", 2.0**31), ("1e3", 1000.0), ("100u", 0.0001)],
)
def test_quantities(text, number):
    assert quantities.number(text) == number


@pytest.mark.parametrize("text", ["1e400", "9" * 400 + "Ei", "-1e400"])
def test_no_quantity_is_larger_than_kubernetes_has_it(text):
    assert abs(quantities.number(text)) == 2.0**63


@pytest.mark.parametrize("text", ["", "lots", "1 Gi", None, True])
def test_what_is_no_quantity(text):
    with pytest.raises(ValueError, match="a quantity is a number"):
        quantities.number(text)


@pytest.mark.parametrize(("number", "text"), [(2.0, "2"), (0.5, "500m"), (1.2345, "1234m")])
def test_cores_as_servers_write_them(number, text):
    assert quantities.cores(number) == text


def item(tmp_path, **spec):
    made = job("t", tmp_path, **spec)
    made["metadata"] |= {
        "uid": "u",
        "namespace": "default",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "generation": 3,
    }
    return made


def test_a_job_is_read(tmp_path):
    found = parse(item(tmp_path, checkpoint={"path": "/c"}, priority=3, workers={"max": 3}))
    assert (found.key, found.uid, found.generation) == (("default", "t"), "u", 3)
    assert found.created == seconds_of("2026-01-02T03:04:05.000Z") == 1767323045.0
    # As many CPUs as there are shards, as more would have nothing to do.
    assert (found.workers.least, found.workers.most, found.workers.most_cpus) == (1, 3, 4)
    assert (found.priority, found.memory, found.deleted) == (3, 64 * 2**20, None)
    assert found.checkpoint.every_seconds == 300


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"workers": {"min": 3, "max": 2}}, "spec.workers.min must be from 1 to"),
        ({"workers": {"max": 5}}, "spec.shards, 4, must not be below spec.workers.max, 5"),
        ({"workers": {"cpu": {"min": 2, "max": 1}}}, "spec.workers.cpu.min must be"),
        ({"workers": {"cpu": {"min": "500m", "max": "750m"}}}, "a whole number of CPUs"),
        ({"workers": {"cpu": {"min": "many"}}}, "spec.workers.cpu.min must be a quantity"),
        ({"shards": 1000}, "spec.shards must be from 1 to 256"),
        ({"parameterServers": {"min": 2, "max": 1}}, "spec.parameterServers.min"),
        ({"parameterServers": {"max": 1, "cpu": 0}}, "spec.parameterServers.cpu must be above 0"),
        (
            {"coordinator": {"resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}},
            "spec.coordinator.resources.requests.cpu must not be above limits.cpu",
        ),
        ({"coordinator": {"resources": "x"}}, "spec.coordinator.resources must be an object"),
        ({"template": {}}, "spec.template.spec is missing"),
        ({"workers": 3}, "spec.workers must be an object, not 3"),
        ({"workers": {"max": "2"}}, "spec.workers.max must be a whole number, not '2'"),
        ({"priority": 1e400}, "spec.priority must be a whole number, not inf"),
        ({"checkpoint": {"path": 1}}, "spec.checkpoint.path must be a text"),
    ],
)
def test_a_job_that_cannot_be(tmp_path, spec, why):
    with pytest.raises(SpecError, match=why):
        parse(item(tmp_path, **spec))


SPEC = "spec.template.spec"
TRAINS = f"{SPEC}.containers[0]"


@pytest.mark.parametrize(
    ("pod", "container", "why"),
    [
        ({"nodeSelector": "x"}, {}, f"{SPEC}.nodeSelector must be an object, not 'x'"),
        ({"nodeSelector": {"a": 1}}, {}, f"{SPEC}.nodeSelector.a must be a text, not 1"),
        ({"tolerations": {}}, {}, f"{SPEC}.tolerations must be a list, not {{}}"),
        ({"affinity": {"nodeAffinity": []}}, {}, f"{SPEC}.affinity.nodeAffinity must be an object"),
        ({"securityContext": 1}, {}, f"{SPEC}.securityContext must be an object"),
        ({"initContainers": [{}]}, {}, f"{SPEC}.initContainers[0].name is missing"),
        ({"overhead": {"cpu": "x"}}, {}, f"{SPEC}.overhead.cpu must be a quantity, not 'x'"),
        ({}, {"env": [{}]}, f"{TRAINS}.env[0].name is missing"),
        ({}, {"resizePolicy": [{}]}, f"{TRAINS}.resizePolicy[0].resourceName is missing"),
        ({}, {"resources": {"limits": {"memory": []}}}, f"{TRAINS}.resources.limits.memory must"),
        ({"containers": ["x" * 99]}, {}, "x" * 79 + "…"),
    ],
)
def test_what_cannot_be_in_a_template_is_named_with_its_path(tmp_path, pod, container, why):
    made = item(tmp_path)
    spec = made["spec"]["template"]["spec"]
    spec["containers"][0] |= container
    spec |= pod
    with pytest.raises(SpecError, match=re.escape(why)):
        parse(made)


def test_a_job_of_another_manager(tmp_path):
    assert parse(item(tmp_path)).is_ours
    assert parse(item(tmp_path, managedBy=resource_names.MANAGER)).is_ours
    assert not parse(item(tmp_path, managedBy="kueue.x-k8s.io/multikueue")).is_ours


@pytest.mark.parametrize(
    ("resources", "found"),
    [
        ({}, (0.05, 96, 1.0, 256)),
        ({"requests": {"cpu": "100m"}}, (0.1, 96, 1.0, 256)),
        ({"requests": {"cpu": 2, "memory": "1Gi"}}, (2.0, 1024, 2.0, 1024)),
        ({"limits": {"cpu": "20m", "memory": "64Mi"}}, (0.02, 64, 0.02, 64)),
    ],
)
def test_what_a_coordinator_requests(tmp_path, resources, found):
    asked = parse(item(tmp_path, coordinator={"resources": resources})).coordinator
    memory = asked.memory / 2**20, asked.most_memory / 2**20
    assert (asked.cpus, memory[0], asked.most_cpus, memory[1]) == found
