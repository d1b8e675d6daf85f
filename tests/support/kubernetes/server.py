# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The HTTP of an API server, in a thread of its own; it can be killed and started again."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import yaml
from aiohttp import web

from tests.support.kubernetes.api import Api
from tests.support.kubernetes.faults import Faults
from tests.support.kubernetes.refusals import RefusedError, bad_request
from tests.support.kubernetes.requests import Answer, Request, parse
from tests.support.kubernetes.resources import discover
from tests.support.kubernetes.store import Change
from tests.support.kubernetes.watching import Watch

Object = dict[str, Any]
Log = Callable[[str, str, Any], Path]
_Result = TypeVar("_Result")
_HEALTH = ("/healthz", "/livez", "/readyz")


class Server:
    """Serves an Api on a port of its own choice, always the same.

    Attributes:
        url: Where.
        bookmark_seconds: How often a watch that allows it is told how far it has come.
        log: Returns the file of a container's output, of a pod's uid and a container's name
            and whether it is the one before the last restart; KeyError if there is none.
    """

    def __init__(self, api: Api) -> None:
        self.api = api
        self.faults = Faults()
        self.bookmark_seconds = 5.0
        self.log: Log = _no_log
        self._port = 0
        self._watches: set[asyncio.Task[Any]] = set()
        self._runner: web.AppRunner | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listen, and know all that was known before."""
        self._do(self._start())
        self.api.available = True

    def kill(self) -> None:
        """Be gone at once, all connections cut."""
        self.api.available = False
        self._do(self._kill())

    def close(self) -> None:
        """End for good."""
        if self._loop.is_closed():
            return
        if self._runner is not None:
            self.kill()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut_watches(self) -> None:
        """Cut the connections of all watches."""
        self._do(self._cut())

    def _do(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        application = web.Application(client_max_size=16 << 20)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(
            application, handler_cancellation=True, shutdown_timeout=0.01, access_log=None
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def _kill(self) -> None:
        runner, self._runner = self._runner, None
        assert runner is not None
        if runner.server is not None:
            for connection in runner.server.connections:
                if connection.transport is not None:
                    connection.transport.abort()
        await runner.cleanup()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=5)

    async def _cut(self) -> None:
        for task in self._watches:
            task.cancel()

    async def _serve(self, http: web.Request) -> web.StreamResponse:
        try:
            return await self._answer(http)
        except RefusedError as refusal:
            return _refused(refusal)

    async def _answer(self, http: web.Request) -> web.StreamResponse:
        user = self.api.authorizer.user(http.headers.get("Authorization"))
        if http.path in _HEALTH:
            return web.Response(text="ok")
        with self.api.store.lock:
            listed = discover(self.api.catalogue, http.path)
        if listed is not None:
            if http.method != "GET" or "system:unauthenticated" in user.groups:
                raise RefusedError(
                    403, "Forbidden", f'forbidden: User "{user.name}" cannot get path'
                )
            return web.json_response(listed)
        query = dict(http.query)
        verb, resource, namespace, name, part = parse(
            self.api.catalogue, http.method, http.path, query
        )
        body, content_type = await _read(http)
        request = Request(
            verb, resource, namespace, name, part, query, body, content_type, user
        )  # fmt: skip
        self.api.authorize(request)
        fault = self.faults.strike(request.call)
        if fault is not None and isinstance(fault.effect, int):
            raise fault.refusal()
        if fault is not None and fault.effect == "hang":
            await asyncio.get_running_loop().create_future()
        if fault is not None and fault.effect == "drop":
            return _cut_off(http)
        if verb == "watch":
            return await self._watch(http, request)
        if part == "log":
            return self._read_log(request)
        answer = self.api.serve(request)
        if fault is not None and fault.effect == "lose":
            return _cut_off(http)
        return _written(answer)

    async def _watch(self, http: web.Request, request: Request) -> web.StreamResponse:
        watch = Watch(self.api, request)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(http)
        task = asyncio.current_task()
        assert task is not None
        self._watches.add(task)
        changed = asyncio.Event()

        def hear(change: Change) -> None:
            self._loop.call_soon_threadsafe(changed.set)

        with self.api.store.lock:
            ignore = self.api.store.listen(hear)
        try:
            await self._tell(response, watch, changed, request.query.get("timeoutSeconds"))
        except asyncio.CancelledError:
            _cut_off(http)
        finally:
            self._watches.discard(task)
            ignore()
        return response

    async def _tell(
        self,
        response: web.StreamResponse,
        watch: Watch,
        changed: asyncio.Event,
        seconds: str | None,
    ) -> None:
        """Write what a watch sees until its time is over or it fails."""
        clock = self._loop.time
        end = clock() + float(seconds or 1800)
        marked = clock()
        while True:
            changed.clear()
            for event in watch.next():
                await response.write(json.dumps(event).encode() + b"\n")
                if event["type"] == "ERROR":
                    return
            now = clock()
            if watch.bookmarks and (now >= end or now - marked >= self.bookmark_seconds):
                await response.write(json.dumps(watch.bookmark()).encode() + b"\n")
                marked = now
            if now >= end:
                return
            wait = min(end, marked + self.bookmark_seconds if watch.bookmarks else end) - now
            try:
                await asyncio.wait_for(changed.wait(), max(wait, 0.001))
            except (asyncio.TimeoutError, TimeoutError):
                continue

    def _read_log(self, request: Request) -> web.Response:
        pod = self.api.found(request)
        container = request.query.get("container") or pod["spec"]["containers"][0]["name"]
        previous = request.query.get("previous") == "true"
        try:
            text = self.log(pod["metadata"]["uid"], container, previous).read_bytes()
        except (KeyError, FileNotFoundError) as error:
            why = f'container "{container}" in pod "{request.name}" is waiting to start'
            raise bad_request(why) from error
        if "tailLines" in request.query:
            lines = text.splitlines(keepends=True)
            text = b"".join(lines[len(lines) - min(len(lines), int(request.query["tailLines"])) :])
        return web.Response(body=text, content_type="text/plain")


async def _read(http: web.Request) -> tuple[Any, str]:
    text = await http.read()
    if not text:
        return None, http.content_type
    try:
        if "yaml" in http.content_type:
            return yaml.safe_load(text), http.content_type
        return json.loads(text), http.content_type
    except (ValueError, yaml.YAMLError) as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error


def _written(answer: Answer) -> web.Response:
    response = web.json_response(answer.body, status=answer.code)
    for said in answer.warnings:
        text = said.replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{text}"')
    return response


def _refused(refusal: RefusedError) -> web.Response:
    headers = {"Retry-After": str(refusal.retry_after)} if refusal.retry_after else {}
    return web.json_response(refusal.status(), status=refusal.code, headers=headers)


def _cut_off(http: web.Request) -> web.Response:
    if http.transport is not None:
        http.transport.abort()
    return web.Response()


def _no_log(uid: str, container: str, previous: Any) -> Path:
    raise KeyError(uid)
