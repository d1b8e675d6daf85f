# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The sample of deploy/kubernetes trains to its end: on the fake, or with TFM_TEST_IMAGE."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.kubernetes.client import Client
from tests.support.manifests import documents
from tests.support.operators import IMAGE, wait_until
from tests.support.real_cluster import IS_REAL
from tf_malleable.cli.cluster.install import manifests

pytestmark = pytest.mark.slow
SAMPLE = ROOT / "deploy" / "kubernetes" / "samples" / "stripes.yaml"
IMAGE_OF_REAL = os.environ.get("TFM_TEST_IMAGE")


def short(script: str) -> str:
    """Return the sample's script with less to do."""
    return script.replace("4096", "512").replace("epochs=60", "epochs=2")


def trained(client: Client) -> dict[str, Any]:
    def status() -> dict[str, Any]:
        found: dict[str, Any] = client.get("malleablejobs", "stripes").get("status", {})
        return found

    ended = ("Succeeded", "Failed")
    wait_until(lambda: status().get("phase") in ended, status, seconds=600)
    return status()


@pytest.mark.fake("uses a script that is a file of this host")
def test_the_sample_trains(site, tmp_path):
    script, job = documents(SAMPLE.read_text())
    path = tmp_path / "script" / "train.py"
    path.parent.mkdir()
    path.write_text(short(script["data"]["train.py"]))
    spec = job["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "script", "hostPath": {"path": str(path.parent)}}]
    (container,) = spec["containers"]
    assert container["command"][-1] == "/script/train.py"
    container |= {"image": IMAGE, "command": [*container["command"][:-1], str(path)]}
    container["volumeMounts"] = [{"name": "script", "mountPath": str(path.parent)}]
    site.cluster.add_node("n", 1.5)
    site.spawn()
    site.client.create(job)
    status = trained(site.client)
    assert status["phase"] == "Succeeded", site.why("stripes")()
    assert "Epoch 2/2" in site.cluster.log("stripes-worker-0")


@pytest.mark.skipif(not (IS_REAL and IMAGE_OF_REAL), reason="needs a cluster and TFM_TEST_IMAGE")
def test_the_sample_trains_on_a_real_cluster(real):
    items = list(manifests(image=IMAGE_OF_REAL))
    for item in items:
        real.apply(item, force="true")
    script, job = documents(SAMPLE.read_text())
    script["data"]["train.py"] = short(script["data"]["train.py"])
    job["spec"]["template"]["spec"]["containers"][0]["image"] = IMAGE_OF_REAL
    real.create(script)
    real.create(job)
    assert trained(real)["phase"] == "Succeeded"
