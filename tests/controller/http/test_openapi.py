# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The OpenAPI document says what is served, and what it says withstands a fuzzer."""

from __future__ import annotations

import asyncio
import copy
import os
import re
import socket
import subprocess
import threading
from contextlib import aclosing

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, assume, settings
from schemathesis.checks import CHECKS

from tests.support.deadline import DEADLINE
from tf_malleable.api.openapi import document
from tf_malleable.controller.http.application import application
from tf_malleable.controller.http.server import Server
from tf_malleable.controller.service import Service
from tf_malleable.controller.state.store import Store
from tf_malleable.linux.processes.peer_credentials import Peer
from tf_malleable.model import Machine

DOCUMENT = document("1.2.3")

OPERATIONS = {
    (method.upper(), path): operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}

LIVE = "live"


def for_fuzzing():
    """Return the document with ids that can be: a live job's and another."""
    changed = copy.deepcopy(DOCUMENT)
    for methods in changed["paths"].values():
        for operation in methods.values():
            for parameter in operation["parameters"]:
                if parameter["name"] == "id":
                    parameter["schema"] = {"enum": [LIVE, "0"]}
    return changed


schema = schemathesis.openapi.from_dict(for_fuzzing())
# Refused for its size rather than for what else is wrong with it.
REJECTION = schema.config.checks.negative_data_rejection
REJECTION.expected_statuses = [*REJECTION.expected_statuses, "413"]

# What no schema can say: a policy's name, min ≤ max. So what fits is not always taken.
UNKNOWABLE = [CHECKS.get_one("positive_data_acceptance")]


class Callers:
    """Stands in for the kernel over TCP: every request is sent by a sleeping process."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self, request: object) -> Peer:
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(["sleep", "600"])
        return Peer(self.process.pid, os.getuid(), os.getgid())

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Briefly(Service):
    """A service whose streams end after their first line, so that a fuzzer goes on."""

    async def watch(self, peer, job, *, splits=False):
        async for line in super().watch(peer, job, splits=splits):
            yield line
            break

    async def events(self, peer):
        async with aclosing(super().events(peer)) as lines:
            yield await anext(lines)


class Served:
    """The real service behind the real server, on a TCP port of this host."""

    def __init__(self, state) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.callers = Callers()
        self._state = state
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        store = Store(self._state)
        service = Briefly(Machine.flat(4), "equal", store, "1.2.3")
        await service.start()
        self.app = application(service, self.callers)
        server = await Server.start(self.app, self.socket, 100)
        self._ready.set()
        await self._stop.wait()
        await service.close()
        await server.close()
        store.close()

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(DEADLINE)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        self.callers.end()

    def live(self) -> str:
        """Return the id of a job that lives."""
        answer = requests.post(f"{self.url}/v1/jobs", json={"name": "fuzzed"}, timeout=DEADLINE)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()["id"]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Served(tmp_path_factory.mktemp("fuzz") / "controller.db") as running:
        yield running


@pytest.mark.slow
@schema.parametrize()
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_the_document_says_holds_whatever_is_sent(case, served):
    number = case.path_parameters.get("id", "0")
    # Else it could be a job's by chance, or end the path.
    assume(number == "0" or not re.search(r"^\d+$|[/?#]", str(number)))
    if number == LIVE:
        case.path_parameters["id"] = served.live()
    case.call_and_validate(base_url=served.url, excluded_checks=UNKNOWABLE)


def test_every_route_is_documented_and_nothing_else(served):
    routes = served.app.router.routes()
    routed = {(route.method, route.resource.canonical) for route in routes}
    assert routed == set(OPERATIONS)


def test_the_document_is_served(served):
    answer = requests.get(f"{served.url}/v1/openapi.json", timeout=DEADLINE)
    assert answer.json() == DOCUMENT


def test_every_operation_says_what_can_happen():
    names = [operation["operationId"] for operation in OPERATIONS.values()]
    assert len(set(names)) == len(names)
    for (_, path), operation in OPERATIONS.items():
        statuses = set(operation["responses"])
        assert {"400", "403", "500", "503"} <= statuses
        assert ("404" in statuses) == (
            "{id}" in path or path in ("/v1/containers", "/v1/power/budget")
        )
        assert ("413" in statuses) == ("requestBody" in operation)
        assert ("408" in statuses) == ("requestBody" in operation)
        assert {"200", "204"} & statuses
        in_path = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", path))


def test_a_refusal_is_described_as_it_may_be_on_every_path():
    not_allowed = OPERATIONS["PUT", "/v1/policy"]["responses"]["403"]["description"]
    assert "job" not in not_allowed
    not_found = OPERATIONS["POST", "/v1/containers"]["responses"]["404"]["description"]
    assert "container" in not_found


def test_every_field_is_explained_where_it_stands():
    schemas = DOCUMENT["components"]["schemas"]
    assert "tfm" not in schemas["Submission"]["description"]
    for name in ("Submission", "Progress", "JobStatus", "JobRecord", "Summary", "ControllerInfo"):
        assert "Attributes" not in schemas[name]["description"]
        for field, values in schemas[name]["properties"].items():
            assert values["description"].endswith("."), (name, field)
    limit, spans, since = OPERATIONS["GET", "/v1/history"]["parameters"]
    assert limit["schema"] == {"type": "integer", "minimum": 1, "maximum": 100_000, "default": 1000}
    assert spans["schema"] == {"type": "boolean", "default": False}
    assert limit["description"]
    assert spans["description"]
    assert since["description"]
