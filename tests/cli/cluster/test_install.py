# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm cluster install: it applies what deploy/kubernetes has, and can do so again."""

from __future__ import annotations

import yaml

from tests.support.kubernetes.authorization import account

OPERATOR = "tf-malleable-operator"


def test_all_of_it_is_applied_and_can_be_again(tfm, bare):
    said = tfm("install", "--image", "registry.example/tfm:2")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[0] == "Namespace tf-malleable applied"
    client = bare.client
    assert client.get("customresourcedefinitions", "malleablejobs.tf-malleable.dev")
    deployment = client.get("deployments", OPERATOR, "tf-malleable")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "registry.example/tfm:2"
    assert client.get("services", OPERATOR, "tf-malleable")["spec"]["ports"][0]["port"] == 8080
    again = tfm("install", "--image", "registry.example/tfm:2")
    assert again == said
    assert client.get("deployments", OPERATOR, "tf-malleable") == deployment


def test_what_others_have_set_is_a_conflict_unless_forced(tfm, bare):
    tfm("install")
    change = {"spec": {"template": {"spec": {"serviceAccountName": "other"}}}}
    bare.client.patch("deployments", OPERATOR, change, "tf-malleable")
    said = tfm("install")
    assert said.code == 1
    assert said.err.startswith(f"tfm: Deployment {OPERATOR}: Apply failed with 1 conflict: ")
    assert said.err.endswith("serviceAccountName; --force-conflicts takes these fields over\n")
    assert tfm("install", "--force-conflicts").code == 0
    pod = bare.client.get("deployments", OPERATOR, "tf-malleable")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == OPERATOR


def test_a_dry_run_prints_what_can_be_applied_and_asks_nobody(tfm, bare):
    said = tfm("install", "--dry-run", kubeconfig=None)
    assert (said.code, said.err) == (0, "")
    items = list(yaml.safe_load_all(said.out))
    assert bare.client.find("namespaces", "tf-malleable") is None
    for item in items:
        bare.client.apply(item)
    assert bare.client.get("deployments", OPERATOR, "tf-malleable")


def test_another_namespace_and_rights_in_one_only(tfm, bare):
    client = bare.client
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "trainings"}})
    assert tfm("install", "-n", "ours", "--only-in", "trainings").code == 0
    assert client.get("deployments", OPERATOR, "ours")
    user = account("ours", OPERATOR)
    rights = bare.api.authorizer.rules

    def may(verb: str, resource: str, namespace: str) -> bool:
        return any(
            verb in rule["verbs"] and resource in rule["resources"]
            for rule in rights(user, namespace)
        )

    assert may("create", "pods", "trainings")
    assert not may("create", "pods", "default")
    assert may("list", "pods", "default")
    assert may("create", "leases", "ours")
    assert not may("create", "leases", "trainings")
