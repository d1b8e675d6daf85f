# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Web application of the page: its files, the stream of changes, and changes by users.

Nothing is decided here. Requests of the page are passed on to the controller, which treats them
as requests of the user who runs this process.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
from aiohttp import web
from aiohttp.client_proto import ResponseHandler
from aiohttp.tracing import Trace
from yarl import URL

from tf_malleable.api.transport.connection import check_server
from tf_malleable.api.transport.http_server import completed
from tf_malleable.linux.output_file import last_lines
from tf_malleable.linux.processes.users import user_name
from tf_malleable.model import OperationError
from tf_malleable.web.access import PROTOCOL, Access, Visit
from tf_malleable.web.files import INDEX, security_headers, static_files
from tf_malleable.web.relay import Relay, Viewer

# Requests that are passed on: a page does not need everything a controller offers.
PASSED_ON: Final = (
    ("GET", "/v1/history"),
    ("GET", "/v1/policy"),
    ("PUT", "/v1/policy"),
    ("GET", "/v1/policy/preview"),
    ("GET", r"/v1/jobs/{id:\d+}/outlook"),
    ("GET", r"/v1/jobs/{id:\d+}/preview"),
    ("PATCH", r"/v1/jobs/{id:\d+}"),
    ("PUT", r"/v1/jobs/{id:\d+}/cores"),
    ("POST", r"/v1/jobs/{id:\d+}/pause"),
    ("POST", r"/v1/jobs/{id:\d+}/resume"),
    ("POST", r"/v1/jobs/{id:\d+}/cancel"),
)
_BODY_LIMIT: Final = 64 * 1024
_ANSWER_SECONDS: Final = 30.0
# Maximum time a viewer may take for a message once its socket is full.
_SLOW_SECONDS: Final = 5.0
_PING_SECONDS: Final = 30.0
_LOG_LINES: Final = 200
_LOG_BYTES: Final = 64 * 1024
# Ended jobs among which one is searched, first and then.
_SEARCHED: Final = (100, 10_000)

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_NO_STORE: Final = {"Cache-Control": "no-store"}


class _Connector(aiohttp.UnixConnector):
    """Connector that believes a controller of root and of this user only."""

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        protocol = await super()._create_connection(req, traces, timeout)
        try:
            assert protocol.transport is not None
            check_server(protocol.transport.get_extra_info("socket"))
        except OSError:
            protocol.close()
            raise
        return protocol


def web_application(controller: str, access: Access) -> web.Application:
    """Return the web application of a page.

    Args:
        controller: Path of the controller's socket.
        access: Access rules.
    """
    files = static_files()
    headers = security_headers(files[INDEX].plain)
    app = web.Application(client_max_size=_BODY_LIMIT, middlewares=[_guarded(access, headers)])
    upstream = web.AppKey("upstream", aiohttp.ClientSession)
    relayed = web.AppKey("relayed", Relay)

    async def connected(app: web.Application) -> AsyncIterator[None]:
        # A new connection for each request: the controller closes idle ones.
        connector = _Connector(path=controller, limit=0, force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            app[upstream], app[relayed] = session, Relay(session, controller)
            running = asyncio.create_task(app[relayed].run())
            yield
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    async def page(request: web.Request) -> web.StreamResponse:
        return await _file(request, INDEX)

    async def static(request: web.Request) -> web.StreamResponse:
        return await _file(request, request.match_info["path"])

    async def _file(request: web.Request, name: str) -> web.StreamResponse:
        found = files.get(name)
        if found is None:
            return _problem(404, "there is no such file")
        kept = {"ETag": found.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.headers.get("If-None-Match") == found.tag:
            return web.Response(status=304, headers=kept)
        packed = "gzip" in request.headers.get("Accept-Encoding", "")
        if packed:
            kept["Content-Encoding"] = "gzip"
        return web.Response(
            body=found.packed if packed else found.plain,
            content_type=found.media,
            charset="utf-8",
            headers=kept,
        )

    async def about(request: web.Request) -> web.StreamResponse:
        said = {
            "user": user_name(os.geteuid()),
            "host": socket.gethostname(),
            "read_only": access.read_only,
        }
        return _json(said)

    async def stream(request: web.Request) -> web.StreamResponse:
        return await _stream(request, request.app[relayed])

    async def passed_on(request: web.Request) -> web.StreamResponse:
        return await _passed_on(request, request.app[upstream], controller)

    app.cleanup_ctx.append(connected)
    app.router.add_get("/", page)
    app.router.add_get("/static/{path:.+}", static)
    app.router.add_get("/about", about)
    app.router.add_get("/stream", stream)
    app.router.add_get(r"/log/{id:\d+}", _logs(upstream, controller))
    for method, path in PASSED_ON:
        app.router.add_route(method, path, passed_on)
    return app


def _guarded(
    access: Access, headers: dict[str, str]
) -> Callable[..., Awaitable[web.StreamResponse]]:
    """Return the middleware that checks every request."""

    def refusal(visit: Visit) -> web.Response | None:
        if (stranger := access.stranger(visit)) is not None:
            return _problem(403, stranger)
        if not access.admits(visit):
            return _problem(403, "open the address that tfm web has printed, with its token")
        forbidden = access.forbidden(visit)
        return None if forbidden is None else _problem(403, forbidden)

    @web.middleware
    async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
        visit = Visit(request.method, request.path, request.headers)
        answer: web.StreamResponse | None = refusal(visit)
        if answer is None:
            try:
                async with completed(request):
                    answer = await handler(request)
            except web.HTTPException as error:
                answer = _problem(error.status, error.reason)
        if not answer.prepared:
            answer.headers.update(headers)
        return answer

    return guard


async def _passed_on(
    request: web.Request, session: aiohttp.ClientSession, controller: str
) -> web.Response:
    """Return the controller's response to the same request."""
    url = URL(f"http://controller{request.rel_url.raw_path_qs}", encoded=True)
    body = await request.read()
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    try:
        async with session.request(
            request.method, url, data=body or None, timeout=timeout
        ) as answer:
            return web.Response(
                status=answer.status,
                body=await answer.read(),
                content_type=answer.content_type,
                headers=_NO_STORE,
            )
    except asyncio.TimeoutError:
        return _problem(504, f"the controller at {controller} does not answer")
    except (aiohttp.ClientError, OSError) as error:
        if isinstance(error, OSError) and error.errno == errno.EACCES:
            return _problem(502, f"cannot use the controller at {controller} ({error.strerror})")
        return _problem(502, f"no controller answers at {controller}; start one: tfm controller")


class _Job(msgspec.Struct):
    """A live or ended job; the controller tells only its user of its output."""

    id: str
    user: str
    output: str | None = None


class _History(msgspec.Struct):
    jobs: list[_Job]


def _logs(upstream: web.AppKey[aiohttp.ClientSession], controller: str) -> _Handler:
    async def log(request: web.Request) -> web.StreamResponse:
        return await _log(request, request.app[upstream], controller)

    return log


async def _log(
    request: web.Request, session: aiohttp.ClientSession, controller: str
) -> web.Response:
    """Return the last lines of a job's output, as tfm logs would print them."""
    number = request.match_info["id"]
    try:
        job = await _find(session, number)
    except asyncio.TimeoutError:
        return _problem(504, f"the controller at {controller} does not answer")
    except (aiohttp.ClientError, OSError, msgspec.MsgspecError):
        return _problem(502, f"no controller answers at {controller}")
    if job is None:
        return _problem(404, f"there is no job {number}")
    if job.output is None:
        return _problem(
            404,
            f"no output is known of job {number}: only that of your own jobs, started by tfm"
            " submit",
        )
    try:
        # A file system may be slow.
        text = await asyncio.to_thread(
            last_lines, Path(job.output), job.user, _LOG_LINES, _LOG_BYTES
        )
    except OperationError as error:
        return _problem(404, str(error))
    return _json({"output": job.output, "text": text})


async def _find(session: aiohttp.ClientSession, number: str) -> _Job | None:
    """Return the live or ended job with this id; None if there is none."""
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    url = f"http://controller/v1/jobs/{number}"
    async with session.get(url, timeout=timeout) as answer:
        if answer.status == 200:
            return msgspec.json.decode(await answer.read(), type=_Job)
    for limit in _SEARCHED:
        url = f"http://controller/v1/history?limit={limit}"
        async with session.get(url, timeout=timeout) as answer:
            answer.raise_for_status()
            jobs = msgspec.json.decode(await answer.read(), type=_History).jobs
        if found := next((job for job in jobs if job.id == number), None):
            return found
        if len(jobs) < limit:
            break
    return None


async def _stream(request: web.Request, relay: Relay) -> web.StreamResponse:
    """Send a viewer everything, then every change, until the page is closed."""
    # Not compressed: compression would be done for each viewer.
    answer = web.WebSocketResponse(
        heartbeat=_PING_SECONDS, compress=False, max_msg_size=1024, protocols=[PROTOCOL]
    )
    await answer.prepare(request)
    viewer = relay.open()
    sending = asyncio.create_task(_send(request, answer, viewer))
    try:
        async for _ in answer:
            pass  # A page sends no meaningful messages here.
    finally:
        relay.close(viewer)
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending
    return answer


async def _send(request: web.Request, answer: web.WebSocketResponse, viewer: Viewer) -> None:
    while (message := await viewer.waiting.get()) is not None:
        try:
            await asyncio.wait_for(answer.send_str(message), _SLOW_SECONDS)
        except (asyncio.TimeoutError, ConnectionError):
            break
    # A browser that reads nothing would not read a close frame either; it reconnects later.
    if request.transport is not None:
        request.transport.abort()


def _json(said: object, status: int = 200) -> web.Response:
    return web.Response(
        status=status,
        body=msgspec.json.encode(said),
        content_type="application/json",
        headers=_NO_STORE,
    )


def _problem(status: int, sentence: str) -> web.Response:
    return _json({"error": sentence}, status)
