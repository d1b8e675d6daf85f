# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Requests that jobs serve: what the controller shows of them, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.service import Host, host
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.api.schema.requests import Progress
from tf_malleable.api.schema.services.request_latency import RequestReport
from tf_malleable.api.validation import decode_body
from tf_malleable.model.services.latency import BUCKETS, bucket_of


def report(here: Host, job: str, seconds: dict[float, int], **more: float) -> None:
    counts = {bucket_of(each): count for each, count in seconds.items()}
    requests = RequestReport(
        buckets=sorted(counts),
        counts=[counts[each] for each in sorted(counts)],
        **more,  # type: ignore[arg-type]
    )
    here.service.progress(here.programs[-1].peer, job, Progress(requests=requests))


def buckets(here: Host, job: str) -> dict[str, float]:
    families = text_string_to_metric_families(here.service.metrics().decode())
    (family,) = [each for each in families if each.name == "tfm_request_seconds"]
    return {
        sample.labels.get("le", sample.name): sample.value
        for sample in family.samples
        if sample.labels["job"] == job
    }


def test_requests_are_in_the_status_the_metrics_and_the_history(state):
    async def scenario():
        async with host(state) as here:
            job = await here.job("serve")
            assert here.status(job).latency is None
            assert buckets(here, job) == {}
            report(here, job, {0.004: 90, 0.03: 9, 3.0: 1})
            report(here, job, {0.004: 100}, in_flight=2, oldest_seconds=0.2)
            found = here.status(job).latency
            assert (found.requests, found.in_flight, found.per_second) == (200, 2, 20.0)
            assert found.p50 == pytest.approx(0.004, rel=0.07)
            assert found.p99 == pytest.approx(0.03, rel=0.07)
            assert found.tail is None
            shown = buckets(here, job)
            assert (shown["0.005"], shown["0.05"], shown["+Inf"]) == (190, 199, 200)
            assert shown["tfm_request_seconds_count"] == 200
            assert shown["tfm_request_seconds_sum"] == pytest.approx(4.03, rel=0.07)
            here.programs[-1].end()
            await here.until(lambda: not here.service.jobs())
            assert buckets(here, job) == {}
            ended = here.service.history(1, False).jobs[0].latency
            assert (ended.requests, ended.in_flight) == (200, 0)
            assert ended.p99 == pytest.approx(0.03, rel=0.07)

    asyncio.run(scenario())


@pytest.mark.slow
def test_what_a_silent_process_had_in_flight_is_forgotten(state):
    async def scenario():
        async with host(state) as here:
            job = await here.job()
            report(here, job, {}, in_flight=5, oldest_seconds=1.0)
            assert here.status(job).latency.in_flight == 5
            await here.until(lambda: here.status(job).latency is None)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "requests",
    [
        {"buckets": [3], "counts": []},
        {"buckets": [3, 3], "counts": [1, 1]},
        {"buckets": [5, 3], "counts": [1, 1]},
        {"buckets": [BUCKETS], "counts": [1]},
        {"buckets": [-1], "counts": [1]},
        {"buckets": [1], "counts": [0]},
        {"buckets": [1], "counts": [-5]},
        {"buckets": [1], "counts": [10**8]},
        {"buckets": [*range(BUCKETS), 0], "counts": [1] * (BUCKETS + 1)},
        {"in_flight": -1},
        {"in_flight": 10**300},
        {"oldest_seconds": -0.1},
        {"oldest_seconds": 1e300},
        {"oldest_seconds": "NaN"},
        {"latency": 3},
        [],
    ],
)
def test_reports_that_lie_are_refused_in_one_sentence(requests):
    body = json.dumps({"requests": requests}).encode()
    with pytest.raises(Refusal) as refusal:
        decode_body(body, Progress)
    assert refusal.value.status == 400
    sentence = refusal.value.sentence
    assert re.match(r"requests must be an object with buckets, counts, in_flight, old", sentence)


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_reports_with_what_is_no_number_are_refused(number):
    body = b'{"requests": {"oldest_seconds": %b}}' % number
    with pytest.raises(Refusal):
        decode_body(body, Progress)
