# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Web application in front of the service.

It makes no decisions. It validates requests and passes them on together with the caller,
which the kernel identifies (SO_PEERCRED). It answers errors with one sentence, as JSON.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware

from tf_malleable.api.openapi import document
from tf_malleable.api.routes import (
    BODY_LIMIT,
    JSON,
    PROMETHEUS,
    ROUTES,
    Route,
)
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.api.validation import cut
from tf_malleable.controller.http.clients import caller_of
from tf_malleable.controller.http.connection import ClientConnection
from tf_malleable.controller.http.pacing import measured
from tf_malleable.controller.http.problems import problem
from tf_malleable.controller.http.request_reader import Handler, body_of, query_of
from tf_malleable.controller.http.response_streams import events, grants, history
from tf_malleable.controller.service import Service
from tf_malleable.linux.processes.peer_credentials import Peer

_log = logging.getLogger(__name__)

_PACES = {route.name: route.pace for route in ROUTES}
_OTHER_VERSION = re.compile(r"/(v[0-9][^/]*)")


@dataclass(frozen=True)
class _Call:
    """A validated request; missing parts are None or empty."""

    peer: Peer
    job: str
    body: Any
    query: Any


def application(
    service: Service, peer: Callable[[web.Request], Peer] | None = None
) -> web.Application:
    """Return the web application of a service.

    Args:
        service: Service that carries out the requests.
        peer: Returns the sender of a request; None asks the kernel, which requires a Unix
            socket.
    """
    caller = peer or _peer
    middlewares = [_in_progress, _in_turn, _errors_as_json, _meeting(service, caller)]
    app = web.Application(client_max_size=BODY_LIMIT, middlewares=middlewares)
    operations = _operations(service)
    special = {
        "events": events(service, caller),
        "grants": grants(service, caller),
        "history": history(service, caller),
        "metrics": _metrics(service),
        "outlook": _outlook(service, caller),
        "submit": _creates(
            "submit", lambda peer, body: service.submit_soon(peer, body), service, caller
        ),
        "take": _creates(
            "take", lambda peer, body: service.take(peer, body.container), service, caller
        ),
    }
    for route in ROUTES:
        handler = special.get(route.name) or _make_handler(
            route, operations[route.name], caller, service
        )
        app.router.add_route(route.method, route.path, handler, name=route.name)
    return app


def metrics_application(service: Service) -> web.Application:
    """Return a web application that serves only the Prometheus metrics."""
    middlewares = [_in_progress, _in_turn, _errors_as_json, _known_host]
    app = web.Application(client_max_size=BODY_LIMIT, middlewares=middlewares)
    app.router.add_route("GET", "/metrics", _metrics(service))
    return app


def _operations(service: Service) -> dict[str, Callable[[_Call], tuple[int, object]]]:
    """Return the operation of each route by name: from a call to an HTTP status and a message."""
    openapi = msgspec.Raw(msgspec.json.encode(document(service.info().version)))

    def status(call: _Call) -> tuple[int, object]:
        job = service.status(call.job)
        return 200, service.sight(call.peer).of(job)

    def acknowledge(call: _Call) -> tuple[int, object]:
        service.acknowledge(call.peer, call.job, call.body)
        return 204, None

    def progress(call: _Call) -> tuple[int, object]:
        service.progress(call.peer, call.job, call.body)
        return 204, None

    return {
        "info": lambda call: (200, service.info()),
        "openapi": lambda call: (200, openapi),
        "jobs": lambda call: (200, msgspec.Raw(service.encoded_jobs(call.peer))),
        "status": status,
        "acknowledge": acknowledge,
        "progress": progress,
        "change": lambda call: (200, service.change(call.peer, call.job, call.body)),
        "preview": lambda call: (200, service.preview(call.peer, call.job, call.query)),
        "preview_policy": lambda call: (200, service.preview_policy(call.query.policy)),
        "set_cores": lambda call: (200, service.set_cores(call.peer, call.job, call.body.cores)),
        "schedule": lambda call: (200, service.schedule(call.peer, call.job, call.body)),
        "unschedule": lambda call: (200, service.unschedule(call.peer, call.job)),
        "pause": lambda call: (200, service.pause(call.peer, call.job)),
        "resume": lambda call: (200, service.resume(call.peer, call.job)),
        "cancel": lambda call: (200, service.cancel(call.peer, call.job)),
        "power": lambda call: (200, service.power.profile()),
        "set_budget": lambda call: (200, service.set_budget(call.peer, call.body)),
        "policies": lambda call: (200, service.policies()),
        "set_policy": lambda call: (200, service.set_policy(call.peer, call.body.policy)),
    }


def _make_handler(
    route: Route,
    operation: Callable[[_Call], tuple[int, object]],
    caller: Callable[[web.Request], Peer],
    service: Service,
) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        call = _Call(
            peer=caller(request),
            job=request.match_info.get("id", ""),
            query=query_of(request, route),
            body=await body_of(request, route),
        )
        status, message = operation(call)
        if route.kept:
            await service.saved()
        if message is None:
            return web.Response(status=status)
        return web.Response(status=status, body=msgspec.json.encode(message), content_type=JSON)

    return handle


def _creates(
    name: str,
    create: Callable[[Peer, Any], Awaitable[tuple[JobStatus, bool]]],
    service: Service,
    caller: Callable[[web.Request], Peer],
) -> Handler:
    """Return the handler of a route that makes a process or container a job, if it is none."""
    (route,) = (route for route in ROUTES if route.name == name)

    async def handle(request: web.Request) -> web.Response:
        query_of(request, route)
        body = await body_of(request, route)
        job, new = await create(caller(request), body)
        if route.kept:
            await service.saved()
        status = 201 if new else 200
        return web.Response(status=status, body=msgspec.json.encode(job), content_type=JSON)

    return handle


def _outlook(service: Service, caller: Callable[[web.Request], Peer]) -> Handler:
    (route,) = (route for route in ROUTES if route.name == "outlook")

    async def handle(request: web.Request) -> web.Response:
        query_of(request, route)
        await body_of(request, route)
        outlook = await service.outlook(caller(request), request.match_info["id"])
        return web.Response(body=msgspec.json.encode(outlook), content_type=JSON)

    return handle


def _metrics(service: Service) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        body = service.metrics()
        return web.Response(body=body, headers={"Content-Type": PROMETHEUS})

    return handle


def _peer(request: web.Request) -> Peer:
    return caller_of(request.get_extra_info("socket"))


@web.middleware
async def _in_progress(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Keep a connection open while it has a request in progress."""
    connection = request.protocol
    if not isinstance(connection, ClientConnection):
        return await handler(request)
    connection.clients.begin(connection)
    try:
        return await handler(request)
    finally:
        connection.clients.end(connection, asyncio.get_running_loop().time())


@web.middleware
async def _in_turn(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a request wait for the turn of its owner, who pays for what it costs."""
    connection = request.protocol
    if not isinstance(connection, ClientConnection):
        return await handler(request)
    owner, pacing = connection.clients.paced(connection), connection.clients.pacing
    if owner is None:
        return await handler(request)
    pace = _PACES.get(request.match_info.route.name or "", "reads")
    await pacing.turn(pace, owner)
    return await measured(handler(request), partial(pacing.charge, pace, owner))


def _meeting(service: Service, caller: Callable[[web.Request], Peer]) -> Middleware:
    """Return a middleware by which the service knows of requests, and of their callers first."""

    @web.middleware
    async def meet(request: web.Request, handler: Handler) -> web.StreamResponse:
        with service.usage.in_use():
            await service.meet(caller(request))
            return await handler(request)

    return meet


@web.middleware
async def _known_host(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse requests for other hosts, as a web page can map its own name to this address."""
    host = request.headers.get("Host", "").rpartition(":")
    if (host[0] or host[2]) not in ("127.0.0.1", "localhost"):
        raise Refusal(403, "the metrics are for the hosts 127.0.0.1 and localhost only")
    return await handler(request)


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every error of a handler into one sentence, as JSON."""
    try:
        return await handler(request)
    except Refusal as refusal:
        return problem(refusal.status, refusal.sentence)
    except web.HTTPException as error:
        answer = problem(error.status, _sentence(request, error))
        if isinstance(error, web.HTTPMethodNotAllowed):
            answer.headers["Allow"] = ", ".join(sorted(error.allowed_methods))
        return answer
    except ConnectionError:
        raise
    except Exception as error:
        _log.exception("%s %s failed", request.method, request.rel_url.raw_path)
        if request.writer.output_size > 0:
            raise ConnectionAbortedError("the response had already begun") from error
        return problem(500, "internal error in the controller; see its log")


def _sentence(request: web.Request, error: web.HTTPException) -> str:
    path = cut(request.rel_url.raw_path)
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = " and ".join(sorted(error.allowed_methods))
        return f"{path} allows {allowed}, not {cut(request.method)}"
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return f"the body must be at most {BODY_LIMIT // 1024} KiB"
    if isinstance(error, web.HTTPNotFound):
        other = _OTHER_VERSION.match(path)
        if other is not None and other[1] != "v1":
            return f"this controller supports /v1, not /{other[1]}"
        return f"there is no {path}; /v1/openapi.json lists all paths"
    return error.text or error.reason
