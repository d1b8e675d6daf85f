# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The dashboard asks for metrics and labels that the controller has."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

from prometheus_client.parser import text_string_to_metric_families

from tf_malleable.api.schema.history import Outcome
from tf_malleable.controller.jobs.instruments import Instruments
from tf_malleable.model import NO_GRANT
from tf_malleable.scheduling.records.request_latencies import RequestLatencies

DASHBOARD = json.loads((Path(__file__).parents[2] / "deploy/grafana/tf_malleable.json").read_text())
# Labels that Prometheus and its histograms add.
ADDED = {"instance", "le"}
VARIABLES = {"instance", "__rate_interval"}


def queries():
    """Return every query of the dashboard, with the title of its panel."""
    found = [
        (panel["title"], target["expr"])
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
    ]
    lists = DASHBOARD["templating"]["list"]
    return found + [
        (each["name"], each["query"]["query"]) for each in lists if each["type"] == "query"
    ]


def served():
    """Return the names of all series that a controller has, and their labels."""
    instruments = Instruments()
    for outcome in get_args(Outcome):
        instruments.ended.labels(outcome).inc()
    instruments.energy.labels("lab", "measured").inc()
    instruments.watts.labels("lab").set(1.0)
    latencies = RequestLatencies(Counter({1: 1}))
    service = SimpleNamespace(
        record=SimpleNamespace(state="running", id="1", name="web", grant=NO_GRANT),
        measured=SimpleNamespace(latencies=latencies),
        used_cpus=None,
    )
    text = instruments.render([service]).decode()
    samples = [
        sample for family in text_string_to_metric_families(text) for sample in family.samples
    ]
    return {sample.name for sample in samples}, {label for each in samples for label in each.labels}


def test_every_query_is_for_series_that_exist():
    names, labels = served()
    assert len(queries()) > 15
    for title, query in queries():
        assert query.count("(") == query.count(")"), title
        assert query.count("{") == query.count("}"), title
        asked = set(re.findall(r"\btfm_\w+", query))
        assert asked, title
        assert asked <= names, title
        used = set(re.findall(r"(\w+)=~?\"", query))
        used |= {
            label for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(", ")
        }
        assert used <= labels | ADDED, title
        assert set(re.findall(r"\$(\w+)", query)) <= VARIABLES, title


def test_every_metric_is_on_the_dashboard():
    names, _ = served()
    asked = " ".join(query for _, query in queries())
    shown = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name in names}
    assert {name for name in shown if name not in asked and f"{name}_total" not in asked} == set()


def test_panels_neither_overlap_nor_share_an_id():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
