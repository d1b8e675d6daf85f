# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Client for other nodes, with a circuit breaker for each; rejects unsigned responses."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Final

import aiohttp
import msgspec

from tf_malleable.api.validation import decode_json
from tf_malleable.tier.node_messages import (
    ANSWER,
    BLOCKS,
    BLOCKS_PATH,
    MOST_BLOCKS,
    RECORDS_PATH,
    SIGNATURE,
    BlocksHeader,
    RecordsAnswer,
    RecordsMessage,
    encode_key,
)
from tf_malleable.tier.peers.circuit_breaker import MISS_SECONDS, Breaker
from tf_malleable.tier.request_signature import Signer
from tf_malleable.tier.store import blocks

BLOCK_SECONDS: Final = 2.0
"""Time limit for a block, after which the source is read instead."""


class PeerGoneError(Exception):
    """A peer did not answer, or not in time."""


class NoCopyError(Exception):
    """A peer has no such copy, or no longer fills it."""


class RottenError(Exception):
    """A peer's bytes do not match their checksum, or come from a node without the secret."""


Take = Callable[[int, bytearray, int], Awaitable[None]]
"""Receives a verified block: its number, its bytes and its checksum."""
Begin = Callable[[BlocksHeader], Awaitable[None]]
"""Receives the description of the file before its first block."""
_GONE: Final = (aiohttp.ClientError, OSError, asyncio.TimeoutError)


class NodeClient:
    """HTTP client for other nodes."""

    def __init__(self, signer: Signer, context: ssl.SSLContext | None) -> None:
        """Create a client; needs a running event loop.

        Args:
            signer: Signer with the nodes' secret.
            context: TLS context; None without TLS.
        """
        self._signer = signer
        self._scheme = "http" if context is None else "https"
        self.breakers: defaultdict[str, Breaker] = defaultdict(Breaker)
        # Without sock_read: its timer also starts if the response comes before the whole request
        # was sent, and then ends the connection's next request at once, as if the peer did not
        # answer (aiohttp 3.14.5).
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=MISS_SECONDS)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=context or True, keepalive_timeout=60),
            timeout=timeout,
            auto_decompress=False,
            trust_env=False,
            read_bufsize=1 << 20,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    def allows(self, node: str) -> bool:
        """Return whether a node may be asked: its breaker is not open."""
        return self.breakers[node].allows(time.monotonic())

    async def tell(self, node: str, message: RecordsMessage) -> RecordsAnswer:
        """Send a message to a home, and return its response.

        Raises:
            PeerGoneError: The node did not answer in time, or the response is not signed.
        """
        body = msgspec.json.encode(message)
        nonce, headers = self._signed("POST", RECORDS_PATH, body)
        try:
            data, code = await asyncio.wait_for(self._post(node, body, headers), MISS_SECONDS)
            if not self._signer.check_answer(nonce, data.decode(errors="replace"), code):
                raise PeerGoneError("its answer is not signed")
            answer = decode_json(data, RecordsAnswer)
        except (*_GONE, PeerGoneError, ValueError) as error:
            self.breakers[node].miss(time.monotonic())
            raise PeerGoneError(str(error) or "no answer in time") from None
        self.breakers[node].answer()
        return answer

    async def fetch(
        self, node: str, key: str, version: str, first: int, begin: Begin, take: Take
    ) -> int:
        """Fetch up to MOST_BLOCKS blocks of a peer's copy, from a given block on.

        Args:
            node: Peer.
            key: Key of the file.
            version: Version of the file; empty for any.
            first: Number of the first block.
            begin: Callback that receives the header before the blocks.
            take: Callback that receives each block.

        Returns:
            Number of blocks fetched; 0 if the peer's copy has not grown.

        Raises:
            PeerGoneError: The peer did not answer, or sent too little for too long.
            NoCopyError: The peer has no such copy.
            RottenError: A block did not match its checksum, or the response is not signed; the
                blocks before were fetched.
        """
        target = (
            f"{BLOCKS_PATH}?key={encode_key(key)}&version={version}&first={first}"
            f"&most={MOST_BLOCKS}"
        )
        nonce, headers = self._signed("GET", target, b"")
        try:
            asked = self._session.get(self._url(node, target), headers=headers)
            async with await asyncio.wait_for(asked, MISS_SECONDS) as response:
                if response.status == 204:
                    self.breakers[node].answer()
                    return 0
                if response.status == 404:
                    self.breakers[node].answer()
                    raise NoCopyError
                if response.status != 200:
                    raise PeerGoneError(f"it answers with {response.status}")
                header = self._header(nonce, response)
                if header.first != first:
                    raise RottenError
                await begin(header)
                return await self._take(node, header, response.content, take)
        except (*_GONE, PeerGoneError) as error:
            self.breakers[node].miss(time.monotonic())
            raise PeerGoneError(str(error) or "no answer in time") from None

    def _header(self, nonce: str, response: aiohttp.ClientResponse) -> BlocksHeader:
        said = response.headers.get(BLOCKS, "")
        if not self._signer.check_answer(nonce, said, response.headers.get(ANSWER, "")):
            raise RottenError
        try:
            return decode_json(said, BlocksHeader)
        except ValueError:
            raise RottenError from None

    async def _take(
        self, node: str, header: BlocksHeader, content: aiohttp.StreamReader, take: Take
    ) -> int:
        for number, code in enumerate(header.codes, header.first):
            begin, end = blocks.span_of(number, header.size)
            data = await _read(content, end - begin)
            if blocks.checksum(data) != code:
                raise RottenError
            self.breakers[node].answer()
            await take(number, data, code)
        return len(header.codes)

    def _url(self, node: str, target: str) -> str:
        return f"{self._scheme}://{node}{target}"

    def _signed(self, method: str, target: str, body: bytes) -> tuple[str, dict[str, str]]:
        nonce, signature = self._signer.sign(method, target, body, time.time())
        return nonce, {SIGNATURE: signature}

    async def _post(self, node: str, body: bytes, headers: dict[str, str]) -> tuple[bytes, str]:
        url = self._url(node, RECORDS_PATH)
        async with self._session.post(url, data=body, headers=headers) as response:
            data = await response.read()
            if response.status != 200:
                raise PeerGoneError(f"it answers with {response.status}")
            return data, response.headers.get(ANSWER, "")


async def _read(content: aiohttp.StreamReader, length: int) -> bytearray:
    """Return the bytes of a block.

    Raises:
        PeerGoneError: The peer closed the connection, or took longer than BLOCK_SECONDS.
        TimeoutError: The peer sent nothing for MISS_SECONDS.
    """
    data = bytearray()
    # A deadline instead of an outer wait_for(): before Python 3.12, one wait_for() within
    # another may swallow the timeout of the outer one.
    until = time.monotonic() + BLOCK_SECONDS
    while len(data) < length:
        if time.monotonic() >= until:
            raise PeerGoneError("it is too slow")
        piece = await asyncio.wait_for(content.read(length - len(data)), MISS_SECONDS)
        if not piece:
            raise PeerGoneError("it hung up")
        data += piece
    return data
