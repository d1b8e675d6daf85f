# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm cluster status and top: what of MalleableJobs is shown."""

from __future__ import annotations

import copy
import json

import pytest

from tests.cli.cluster.conftest import STATUS


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_jobs_are_listed_with_what_they_have(tfm, submit):
    submit()
    submit("other", None)
    said = tfm("status")
    assert (said.code, said.err) == (0, "")
    head, first, second = rows(said.out)
    assert head == [
        *("name", "phase", "workers", "desired", "granted", "actual"),
        *("steps", "steps/s", "age", "why"),
    ]
    assert first[:10] == [
        *("digits", "Running", "2", "8", "4", "3.5"),
        *("120", "of", "400", "12.2"),
    ]
    assert said.out.splitlines()[1].rstrip().endswith("no node has room for more")
    assert second[:6] == ["other", "New", "-", "-", "-", "-"]


def test_all_namespaces_are_told_apart(tfm, submit, cluster):
    cluster.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})
    submit()
    submit(namespace="x")
    assert [row[:2] for row in rows(tfm("status", "-A").out)[1:]] == [
        ["default", "digits"],
        ["x", "digits"],
    ]
    assert [row[0] for row in rows(tfm("status", "-n", "x").out)[1:]] == ["digits"]
    assert [row[0] for row in rows(tfm("status").out)[1:]] == ["digits"]


def test_nothing_is_said_in_a_sentence(tfm, cluster):
    assert tfm("status").out == "there are no MalleableJobs in namespace default\n"
    assert tfm("status", "-A").out == "there are no MalleableJobs in any namespace\n"
    assert tfm("history").out == "there are no MalleableJobs\n"


def test_all_is_shown_of_one(tfm, submit):
    submit(priority=3)
    found = rows(tfm("status", "digits").out)
    text = [" ".join(row) for row in found]
    assert text[0] == (
        "digits in default: Running, generation 3, 8 shards, priority 3, step 120 of 400,"
        " 12.2 steps/s"
    )
    for line in (
        "desired 4 8",
        "granted 2 4",
        "actual 2 3.5",
        "digits-worker-0 a 2 1.5 4",
        "digits-worker-1 b 2 2 4",
        "digits-server-0 b 1 1",
    ):
        assert line in text
    (rescale,) = [row for row in found if "join" in row]
    assert rescale[1:] == ["join", "1", "→", "2", "-", "→", "-", "48", "ms"]
    (condition,) = [line for line in text if line.startswith("Granted True Scheduled")]
    assert condition.endswith("no node has room for more")


def test_what_is_written_by_others_cannot_move_the_terminal(tfm, submit):
    status = copy.deepcopy(STATUS)
    status["conditions"][0]["message"] = "\x1b[2Jgone"
    submit(status=status)
    for words in (["status"], ["status", "digits"], ["top"]):
        assert "\x1b" not in tfm(*words).out


def test_json_has_the_whole_status(tfm, submit):
    submit()
    said = json.loads(tfm("status", "digits", "--json").out)
    assert (said["name"], said["namespace"]) == ("digits", "default")
    assert said["status"] == STATUS
    assert said["spec"]["shards"] == 8
    (one,) = json.loads(tfm("status", "--json").out)
    assert one == said


def test_why_a_job_is_not_well_comes_first(tfm, submit):
    bad = {"status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    healthy = {**bad, "type": "Healthy", "reason": "ImagePullBackOff", "message": "no such image"}
    submit(status={**STATUS, "conditions": [*STATUS["conditions"], healthy]})
    assert tfm("status").out.splitlines()[1].rstrip().endswith("no such image")
    failed = {**healthy, "type": "Failed", "status": "True", "message": "six crashes"}
    submit("broken", {**STATUS, "phase": "Failed", "conditions": [failed]})
    (line,) = [one for one in tfm("status").out.splitlines() if one.startswith("broken")]
    assert line.rstrip().endswith("six crashes")


def test_top_shows_where_jobs_have_their_cpus(tfm, submit, cluster):
    cluster.add_node("a", 4)
    cluster.add_node("b", 2)
    cluster.cordon("b")
    submit()
    said = tfm("top")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0] == "1 MalleableJob, 1 running with 3.5 CPUs, of 6 on 2 nodes"
    (letter,) = {line.split()[0] for line in lines if " digits " in line}
    found = {row[0]: row[1:] for row in rows(said.out) if row}
    assert found["a"] == ["2", "4", f"{letter * 2}.."]
    assert found["b"][:3] == ["2", "2", letter * 2]
    assert " ".join(found["b"][3:]).endswith("cordoned")


def test_top_does_without_nodes_that_may_not_be_seen(tfm, submit, cluster):
    from tests.support.kubernetes.authorization import account

    cluster.add_node("a", 4)
    group = "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["tf-malleable.dev"], "resources": ["malleablejobs"], "verbs": ["list"]}
    about = {"apiVersion": f"{group}/v1", "metadata": {"name": "sees"}}
    cluster.client.create({**about, "kind": "Role", "rules": [rule]})
    cluster.client.create(
        {
            **about,
            "kind": "RoleBinding",
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "sees"},
            "subjects": [{"kind": "ServiceAccount", "name": "ada", "namespace": "default"}],
        }
    )
    submit()
    mine = cluster.kubeconfig(account("default", "ada"))
    said = tfm("top", kubeconfig=mine)
    assert said.out.splitlines()[0] == "1 MalleableJob, 1 running with 3.5 CPUs"
    refused = tfm("status", "-A", kubeconfig=mine)
    assert refused.code == 1
    assert refused.err.startswith("tfm: malleablejobs.tf-malleable.dev is forbidden: User")
    assert refused.err.count("\n") == 1


def test_top_prints_a_line_of_json(tfm, submit):
    submit()
    (line,) = tfm("top", "--json", "--once").out.splitlines()
    assert [one["name"] for one in json.loads(line)] == ["digits"]
    assert tfm("top", "--interval", "0").code == 2


@pytest.mark.parametrize("words", [["status"], ["top"], ["history"], ["status", "digits"]])
def test_without_the_definition_the_advice_is_to_install(tfm, bare, words):
    said = tfm(*words)
    assert (said.code, said.out) == (1, "")
    assert said.err == "tfm: this cluster does not know MalleableJobs: tfm cluster install\n"


def test_what_is_not_there_or_contradicts_itself(tfm, cluster):
    said = tfm("status", "nobody")
    assert said.code == 1
    assert said.err == "tfm: there is no MalleableJob 'nobody' in namespace default\n"
    assert tfm("status", "nobody", "-A").code == 2


def test_without_a_cluster_there_is_one_sentence(tfm, bare):
    said = tfm("status", kubeconfig=None)
    assert said.code == 1
    assert said.err.startswith("tfm: no Kubernetes cluster is known: ")
    assert tfm("status", "--context", "other").code == 1
    path = bare.kubeconfig()
    bare.server.kill()
    said = tfm("status", kubeconfig=path)
    assert said.err == f"tfm: the API server at {bare.server.url} does not answer\n"


def test_the_environment_names_the_cluster(tfm, cluster, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(namespace="other")))
    said = tfm("status", kubeconfig=None)
    assert (said.code, said.out) == (0, "there are no MalleableJobs in namespace other\n")


def test_wrong_credentials_are_said(tfm, bare):
    path = bare.kubeconfig()
    path.write_text(path.read_text().replace('"token": "', '"token": "x'))
    said = tfm("status", kubeconfig=path)
    assert said.code == 1
    assert "has no valid credentials" in said.err


def test_the_missing_package_is_named(tfm, bare, monkeypatch):
    import sys

    path = bare.kubeconfig()
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    said = tfm("status", kubeconfig=path)
    assert said.code == 1
    assert said.err.startswith("tfm: the package kubernetes is missing")
