# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""deploy/kubernetes: one source, copies that equal it, and what a cluster takes of it."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pack_manifests
import pytest
import yaml

from tests.support import ROOT
from tests.support.kubernetes.api import Api
from tests.support.kubernetes.client import Client
from tests.support.manifests import chart, documents, kustomized
from tf_malleable.cli.cluster.install import manifests
from tf_malleable.model.version import __version__

FOLDER = ROOT / "deploy" / "kubernetes"
BASE, CHART = FOLDER / "base", FOLDER / "chart"
OVERLAYS = sorted(path for path in (FOLDER / "overlays").iterdir())
OPERATOR = "tf-malleable-operator"

Objects = list[dict[str, Any]]


def by_name(items: Objects) -> dict[tuple[str, str, str], dict[str, Any]]:
    found = {}
    for item in items:
        metadata = item["metadata"]
        found[item["kind"], metadata.get("namespace", ""), metadata["name"]] = item
    assert len(found) == len(items)
    return found


def without_own(items: Objects) -> Objects:
    """Return objects without those that Helm brings otherwise: the namespace and the CRD."""
    return [i for i in items if i["kind"] not in ("Namespace", "CustomResourceDefinition")]


def test_copies_are_what_the_files_are():
    for path, text in pack_manifests.copies().items():
        assert path.read_text() == text, f"run tools/pack_manifests.py: {path}"


def test_what_is_installed_is_the_base():
    assert list(manifests()) == kustomized(BASE)


@pytest.mark.parametrize("folder", [BASE, *OVERLAYS], ids=lambda folder: folder.name)
def test_a_cluster_takes_all_of_it(folder):
    client = Client(Api())
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "trainings"}})
    for item in kustomized(folder):
        client.apply(item)
    assert client.get("deployments", OPERATOR, "tf-malleable")


@pytest.mark.parametrize("folder", [BASE, *OVERLAYS], ids=lambda folder: folder.name)
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_kustomize_makes_the_same_of_it(folder):
    said = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, check=True)
    assert by_name(documents(said.stdout.decode())) == by_name(kustomized(folder))


def test_one_namespace_only():
    items = by_name(kustomized(FOLDER / "overlays" / "one-namespace"))
    name = "tf-malleable-operator-acts"
    assert ("ClusterRoleBinding", "", name) not in items
    assert items["RoleBinding", "trainings", name]["roleRef"]["name"] == name
    installed = by_name(list(manifests(only_in="trainings")))
    assert installed == items


def test_the_chart_is_the_base():
    items = chart(CHART, "tf-malleable")
    assert by_name(items) == by_name(without_own(kustomized(BASE)))
    assert documents((CHART / "crds" / "crd.yaml").read_text()) == documents(
        (BASE / "crd.yaml").read_text()
    )


@pytest.mark.parametrize(
    ("values", "overlay"), [({"replicas": 2}, "two-operators"), ({"onlyIn": "trainings"}, None)]
)
def test_values_make_the_overlays_of_it(values, overlay):
    items = chart(CHART, "tf-malleable", **values)
    folder = FOLDER / "overlays" / (overlay or "one-namespace")
    assert by_name(items) == by_name(without_own(kustomized(folder)))


def test_other_values_of_the_chart():
    toleration = {"operator": "Exists"}
    values = {
        "image": {"repository": "r/tfm", "tag": "2"},
        "policy": "equal",
        "tolerations": [toleration],
        "imagePullSecrets": [{"name": "s"}],
        "nodeSelector": {"a": "b"},
    }
    items = by_name(chart(CHART, "ours", **values))
    pod = items["Deployment", "ours", OPERATOR]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "r/tfm:2"
    assert pod["containers"][0]["command"][3:] == ["--policy", "equal"]
    assert pod["tolerations"] == [toleration]
    assert pod["imagePullSecrets"] == [{"name": "s"}]
    assert pod["nodeSelector"] == {"a": "b"}
    assert {one[1] for one in items} == {"", "ours"}


def test_a_policy_with_several_options_is_one_argument():
    items = by_name(chart(CHART, "ours", policy="marginal:a=1, b=2", onlyIn="1234"))
    pod = items["Deployment", "ours", OPERATOR]["spec"]["template"]["spec"]
    said = pod["containers"][0]["command"][3:]
    assert said == ["--policy", "marginal:a=1, b=2", "--only-in", "1234"]
    assert ("RoleBinding", "1234", "tf-malleable-operator-acts") in items


@pytest.mark.parametrize(
    ("values", "why"),
    [
        # Helm reads a number, and writes 2e+07.
        ({"image": {"repository": "r", "tag": 20000000}}, "image.tag in body must be of type str"),
        ({"replicas": "two"}, "replicas in body must be of type integer"),
        ({"policies": "equal"}, "policies: unknown"),
        ({"image": {"name": "r"}}, "image.name: unknown"),
    ],
)
def test_values_that_the_chart_does_not_take(values, why):
    with pytest.raises(ValueError, match=why):
        chart(CHART, "ours", **values)


@pytest.mark.skipif(shutil.which("helm") is None, reason="needs helm")
@pytest.mark.parametrize(
    "values", [{}, {"replicas": 2}, {"onlyIn": "trainings"}, {"policy": "equal"}]
)
def test_helm_makes_the_same_of_it(values):
    more = [f"--set={name}={value}" for name, value in values.items()]
    command = ["helm", "template", "x", CHART, "-n", "tf-malleable", *more]
    said = subprocess.run(command, capture_output=True, check=True)
    found = by_name(documents(said.stdout.decode()))
    assert found == by_name(chart(CHART, "tf-malleable", **values))


def test_versions_agree():
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (about["version"], about["appVersion"]) == (__version__, __version__)
    deployment = by_name(kustomized(BASE))["Deployment", "tf-malleable", OPERATOR]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"tf_malleable:{__version__}"


def test_the_operators_pod_is_restricted():
    """As the Pod Security Standards say for what is restricted, which its namespace enforces."""
    items = by_name(kustomized(BASE))
    labels = items["Namespace", "", "tf-malleable"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    pod = items["Deployment", "tf-malleable", OPERATOR]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}


def test_rights_are_named_one_by_one():
    for item in kustomized(BASE):
        for rule in item.get("rules", ()):
            words = [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
            assert "*" not in words, item["metadata"]["name"]


@pytest.mark.parametrize("path", sorted((FOLDER / "samples").glob("*.yaml")), ids=lambda p: p.name)
def test_samples_can_be_applied(client, path):
    items = documents(path.read_text())
    for item in items:
        client.apply(item, dryRun="All")
        if item["kind"] == "ConfigMap":
            for name, text in item["data"].items():
                compile(text, name, "exec")
    (job,) = [item for item in items if item["kind"] == "MalleableJob"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"tf_malleable:{__version__}"
