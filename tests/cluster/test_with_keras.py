# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A real Keras training under the operator: workers come, one is lost, and no bit differs."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.support import ROOT
from tests.support.elastic_local import Pace

SCRIPT = str(ROOT / "tests" / "elastic" / "paced.py")
EPOCHS, STEPS = 3, 10
SECONDS = 200.0


def submit(site, name, **spec):
    folder = site.folder / name
    item = site.make(name, **spec)
    (folder / "files").mkdir()
    container = item["spec"]["template"]["spec"]["containers"][0]
    container["command"] = ["tfm", "run", "--", "python", SCRIPT, str(folder), str(EPOCHS)]
    container["resources"] = {"limits": {"memory": "1Gi"}}
    container["env"] = [
        {"name": "TF_MALLEABLE_ELASTIC_SEED", "value": "1"},
        {"name": "TF_CPP_MIN_LOG_LEVEL", "value": "3"},
        {"name": "TF_NUM_INTRAOP_THREADS", "value": "1"},
    ]
    allow(site, name, 0)
    site.client.create(item)


def allow(site, name, batches):
    fresh = site.folder / name / "fresh"
    fresh.write_text(str(batches))
    fresh.rename(site.folder / name / "quota")


def lead_to(site, workers, batches):
    """Have it train, batch by batch, until it has so many workers; return the next batch."""

    def is_so():
        status = site.status("moved")
        return (
            status.get("actual", {}).get("workers") == workers
            and len(site.pods("moved")) == workers
        )

    end = time.monotonic() + SECONDS
    pace = Pace()
    while not is_so():
        assert time.monotonic() < end, site.why("moved")()
        if site.step("moved") >= batches and pace.is_time():
            assert batches < EPOCHS * STEPS - 1, "it is over too soon"
            batches += 1
            allow(site, "moved", batches)
        time.sleep(0.5)
    return batches


def ended(site, name):
    site.wait(lambda: site.status(name).get("phase") == "Succeeded", name, SECONDS)
    return [dict(np.load(path)) for path in (site.folder / name).glob("*.npz")]


@pytest.mark.fake("paces the training by files of this host")
@pytest.mark.slow
def test_the_result_has_the_same_bits_however_many_workers_there_were(site):
    site.cluster.add_node("a", 1.5)
    site.start()
    submit(site, "moved")
    batches = lead_to(site, 1, 0)
    site.cluster.add_node("b", 1.5)
    batches = lead_to(site, 2, batches)
    site.cluster.remove_node("b")
    batches = lead_to(site, 1, batches)
    allow(site, "moved", EPOCHS * STEPS)
    (moved,) = ended(site, "moved")
    submit(site, "still", workers={"max": 1})
    allow(site, "still", EPOCHS * STEPS)
    (still,) = ended(site, "still")
    assert moved.keys() == still.keys()
    different = [
        name
        for name in still
        if not name.startswith(("batches", "epochs"))
        and not np.array_equal(still[name], moved[name], equal_nan=True)
    ]
    assert different == []
    reasons = [each["reason"] for each in site.status("moved")["rescales"]]
    assert reasons[:3] == ["start", "join", "lost"]
