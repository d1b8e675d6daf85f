# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Gateway: an S3 endpoint on this host for the programs that read through the tier.

Each read of an object asks S3 for the object's version first, so no old byte is ever served. All
other requests are passed on, as they are but for their signature.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import Iterable, Mapping
from typing import Final
from weakref import WeakValueDictionary
from xml.sax.saxutils import escape

import aiohttp
from aiohttp import web

from tf_malleable.tier.node_messages import MOST_BLOCKS
from tf_malleable.tier.object_names import ObjectSource, ObjectTarget
from tf_malleable.tier.object_store.local_gate import HOST, LocalGate
from tf_malleable.tier.object_store.object_copies import ObjectCopies, ObjectStatus, copy_key
from tf_malleable.tier.object_store.upstream import (
    ANSWER_SECONDS,
    FAILURES,
    Upstream,
    UpstreamError,
)
from tf_malleable.tier.service import TierService
from tf_malleable.tier.store import blocks
from tf_malleable.tier.store.copy_store import Kept
from tf_malleable.tier.store.partial_copy import PartialCopy

_HOP_BY_HOP: Final = frozenset((
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
    "te", "trailer", "transfer-encoding", "upgrade",
))  # fmt: skip
_OF_WHOLE: Final = "x-amz-checksum-"
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
# A reader does not wait for blocks that are farther ahead of what has been copied.
_MOST_AHEAD: Final = 8
_NOT_PASSED: Final = _HOP_BY_HOP | {
    "authorization", "expect", "host", "x-amz-date", "x-amz-security-token",
}  # fmt: skip
# A read with one of these is S3's to answer. Others are such with a query, but for the SDK's own.
_CONDITIONS: Final = (
    "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "x-amz-request-payer",
    "x-amz-server-side-encryption-customer-algorithm",
)  # fmt: skip
_PLAIN_QUERY: Final = ((), (("x-id", "GetObject"),))

_Found = tuple[ObjectStatus | None, Kept | PartialCopy | None, aiohttp.ClientResponse | None]


class Gateway:
    """HTTP server for the S3 requests of this user's programs."""

    def __init__(
        self, service: TierService, sources: Iterable[ObjectSource], upstream: Upstream
    ) -> None:
        """Create a server for a service that keeps copies of some objects, from an S3 service."""
        self._service, self._sources, self._upstream = service, tuple(sources), upstream
        self._copies = ObjectCopies(service, upstream)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        self._gate: LocalGate | None = None

    async def start(self, port: int) -> str:
        """Listen at a port of 127.0.0.1, or any free one; return the URL."""
        await self._upstream.start()
        await self._runner.setup()
        serve = self._runner.server
        assert serve is not None
        self._gate = LocalGate(port, serve)
        return f"http://{HOST}:{self._gate.address[1]}"

    async def stop(self) -> None:
        """Stop listening, and close all connections."""
        if self._gate is not None:
            await self._gate.close()
        await self._runner.cleanup()
        await self._upstream.stop()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        assert self._gate is not None
        host = f"{HOST}:{self._gate.address[1]}"
        # A web page in a browser of the user can send requests here, too.
        if "Origin" in request.headers or request.headers.get("Host") != host:
            return _problem(403, "AccessDenied", "only programs of this host are served")
        if request.headers.get("x-amz-content-sha256", "").startswith("STREAMING-AWS4"):
            return _problem(501, "NotImplemented", "chunks with signatures cannot be passed on")
        try:
            target = ObjectTarget.parse(request.raw_path)
        except ValueError as error:
            return _problem(400, "InvalidURI", str(error))
        try:
            if request.method == "GET" and self._is_plain(request.headers, target):
                return await self._get(request, target)
            return await self._pass(request, target)
        except UpstreamError as error:
            return _problem(503, "ServiceUnavailable", str(error))

    def _is_plain(self, headers: Mapping[str, str], target: ObjectTarget) -> bool:
        """Return whether a GET is for the bytes of an object that may have a copy."""
        return (
            any(each.has(target.bucket, target.key) for each in self._sources if target.key)
            and target.query in _PLAIN_QUERY
            and not any(each in headers for each in _CONDITIONS)
        )

    async def _get(self, request: web.Request, target: ObjectTarget) -> web.StreamResponse:
        key = copy_key(target)
        if key is None:
            return await self._pass(request, target)
        if self._copies.is_known(key):
            status, copy, answer = await self._find(request, target, key)
        else:  # Those who miss an object at the same time read it once.
            async with self._locks.setdefault(key, asyncio.Lock()):
                status, copy, answer = await self._find(request, target, key)
        if status is not None and copy is not None:
            response = await _send_copy(request, self._copies, copy, target, status)
            if response is not None:
                return response
        elif answer is not None:
            return await self._relay(request, answer)
        return await self._pass(request, target)

    async def _find(self, request: web.Request, target: ObjectTarget, key: str) -> _Found:
        """Ask S3 for the version of an object, and find or begin a copy of it.

        Returns:
            The status and the copy; or an answer with the bytes for the client; or nothing, and
            the request is to be passed on.
        """
        headers, asked = _passed(request.headers), request.headers.get("Range")
        wanted = headers.pop("if-match", "*")
        headers.pop("range", None)
        is_whole = asked is None and wanted == "*" and not self._copies.is_known(key)
        answer = await self._upstream.ask("GET" if is_whole else "HEAD", target, headers)
        status = ObjectStatus.of(answer)
        if answer.status in (403, 404):
            self._service.forget(key)
        if not is_whole:
            self._service.counters.metadata += 1
            answer.release()
            if status and wanted in ("*", status.etag) and _span_of(asked, status.identity.size):
                return status, await self._copies.find(key, target, status, None), None
            return None, None, None
        self._service.counters.source_opens += 1
        copy = await self._copies.find(key, target, status, answer) if status else None
        return (status, copy, None) if copy else (None, None, answer)

    async def _pass(self, request: web.Request, target: ObjectTarget) -> web.StreamResponse:
        """Pass a request on to S3, and its answer back."""
        body = request.content.iter_any() if request.body_exists else None
        headers = _passed(request.headers)
        answer = await self._upstream.ask(request.method, target, headers, body)
        return await self._relay(request, answer)

    async def _relay(
        self, request: web.Request, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        """Send an answer of S3 as it is."""
        response = _response(answer.status, answer.headers)
        try:
            await response.prepare(request)
            self._service.counters.source_bytes += await _send_body(response, answer)
            await response.write_eof()
        except FAILURES:
            _abort(request)
        finally:
            answer.close()
        return response


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a request that S3 gets too, with names in lower case."""
    lower = ((name.lower(), value) for name, value in headers.items())
    return {name: value for name, value in lower if name not in _NOT_PASSED}


async def _send_copy(
    request: web.Request,
    copies: ObjectCopies,
    copy: Kept | PartialCopy,
    target: ObjectTarget,
    status: ObjectStatus,
) -> web.StreamResponse | None:
    """Answer from a copy of this version of an object; None if it is gone, or not that far."""
    counters, path = copies.service.counters, copies.service.store.path(copy.key)
    is_part = "Range" in request.headers
    begin, end = _span_of(request.headers.get("Range"), status.identity.size) or (0, 0)
    try:
        descriptor = copy.open() if isinstance(copy, PartialCopy) else os.open(path, os.O_RDONLY)
    except OSError:
        return None
    with io.FileIO(descriptor) as file:
        # Until then, the answer of S3 can still be the client's, whatever it is.
        if begin < end and await _available(copy, begin) <= begin:
            return None
        response = _response(206 if is_part else 200, status.headers)
        if is_part:
            response.headers["Content-Range"] = f"bytes {begin}-{end - 1}/{status.identity.size}"
            for name in [each for each in response.headers if each.lower().startswith(_OF_WHOLE)]:
                response.headers.popall(name, None)
        response.content_length = end - begin
        await response.prepare(request)
        counters.copy_opens += isinstance(copy, Kept)
        try:
            while begin < end and (available := await _available(copy, begin)) > begin:
                sent = await _send_file(request, file, begin, min(end, available))
                if isinstance(copy, Kept):
                    counters.copy_bytes += sent
                else:
                    counters.growing_bytes += sent
                begin += sent
            if begin < end:  # No bytes of another version follow those of this one.
                answer = await copies.ask_for(target, status, begin, end)
                counters.source_bytes += await _send_body(response, answer)
            await response.write_eof()
        except FAILURES:  # The client sees that bytes are missing.
            _abort(request)
    return response


def _problem(status: int, code: str, message: str) -> web.Response:
    """Return an error in the form of S3's."""
    text = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    return web.Response(status=status, text=text, content_type="application/xml")


def _span_of(text: str | None, size: int) -> tuple[int, int] | None:
    """Return first byte and end of a Range header, None for all bytes; None if S3 must answer."""
    if text is None:
        return 0, size
    found = _RANGE.fullmatch(text)
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if not first:
        begin, end = max(0, size - int(last)), size
    else:
        begin, end = int(first), min(size, int(last) + 1) if last else size
    return (begin, end) if begin < end else None


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _response(status: int, headers: Mapping[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(status=status)
    for name, value in headers.items():
        if name.lower() not in _HOP_BY_HOP:
            response.headers.add(name, value)
    return response


async def _available(copy: Kept | PartialCopy, position: int) -> int:
    """Wait for the block of a byte, and return the end of what is there from that on."""
    if not isinstance(copy, PartialCopy):
        return copy.size
    number = position // blocks.block_size(copy.size)
    if not copy.is_closed and number - copy.first_missing() > _MOST_AHEAD:
        return position
    try:
        codes = await copy.wait_for_blocks(number, MOST_BLOCKS, ANSWER_SECONDS)
    except OSError:  # It has been published or abandoned.
        return position if copy.problem else copy.size
    return blocks.span_of(number + len(codes) - 1, copy.size)[1] if codes else position


async def _send_file(request: web.Request, file: io.FileIO, begin: int, end: int) -> int:
    """Send bytes of a file without reading them, and return how many were sent."""
    if (transport := request.transport) is None:
        raise ConnectionResetError
    sent = await asyncio.get_running_loop().sendfile(transport, file, begin, end - begin)
    if not sent:
        raise OSError("the copy is shorter than the object")
    return sent


async def _send_body(response: web.StreamResponse, answer: aiohttp.ClientResponse) -> int:
    """Send the body of an answer of S3, and return its length; may raise any of FAILURES."""
    sent = 0
    try:
        while piece := await asyncio.wait_for(answer.content.readany(), ANSWER_SECONDS):
            await response.write(piece)
            sent += len(piece)
    finally:
        answer.close()
    return sent
