# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Asks other nodes, each through a breaker, and believes nothing that is not signed."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Final

import aiohttp
import msgspec

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
"""If a block takes longer, the source is read instead."""


class PeerGoneError(Exception):
    """A peer did not answer, or not in time."""


class NoCopyError(Exception):
    """A peer has no such copy, or does not go on with it."""


class RottenError(Exception):
    """A peer's bytes do not have their checksum, or are not from a node with the secret."""


Take = Callable[[int, bytearray, int], Awaitable[None]]
"""Takes a block that was checked: its number, its bytes and its checksum."""
Begin = Callable[[BlocksHeader], Awaitable[None]]
"""Is told what comes."""
_GONE: Final = (aiohttp.ClientError, OSError, asyncio.TimeoutError)


class NodeClient:
    """Asks other nodes."""

    def __init__(self, signer: Signer, context: ssl.SSLContext | None) -> None:
        """Prepare; needs a running loop.

        Args:
            signer: With the nodes' secret.
            context: Of TLS; None without.
        """
        self._signer = signer
        self._scheme = "http" if context is None else "https"
        self.breakers: dict[str, Breaker] = {}
        # Not sock_read: its timer also starts where the answer came before all was sent, and ends
        # the connection's next request at once, as if nobody answered (aiohttp 3.14.5).
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=MISS_SECONDS)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=context or True, keepalive_timeout=60),
            timeout=timeout,
            auto_decompress=False,
            trust_env=False,
            read_bufsize=1 << 20,
        )

    async def close(self) -> None:
        """Hang up."""
        await self._session.close()

    def allows(self, node: str) -> bool:
        """Return whether a node may be asked: it is not off."""
        breaker = self.breakers.get(node)
        return breaker is None or breaker.allows(time.monotonic())

    def miss(self, node: str) -> None:
        """Note that a node did not answer in time."""
        self.breakers.setdefault(node, Breaker()).miss(time.monotonic())

    async def tell(self, node: str, message: RecordsMessage) -> RecordsAnswer:
        """Tell a home something, and return its answer.

        Raises:
            PeerGoneError: It did not answer, or the answer is not signed.
        """
        body = msgspec.json.encode(message)
        nonce, headers = self._signed("POST", RECORDS_PATH, body)
        try:
            data, code = await asyncio.wait_for(self._post(node, body, headers), MISS_SECONDS)
            if not self._signer.check_answer(nonce, data.decode(errors="replace"), code):
                raise PeerGoneError("its answer is not signed")
            answer = msgspec.json.decode(data, type=RecordsAnswer)
        except (*_GONE, PeerGoneError, msgspec.DecodeError) as error:
            self.miss(node)
            raise PeerGoneError(str(error) or "no answer in time") from None
        self._answered(node)
        return answer

    async def fetch(
        self, node: str, key: str, version: str, first: int, begin: Begin, take: Take
    ) -> int:
        """Fetch what a peer has of a copy from a block on, at most MOST_BLOCKS of them.

        Args:
            node: The peer.
            key: Of the file.
            version: Of the file; empty for any.
            first: The first block.
            begin: Is told what comes, before it comes.
            take: Takes each block.

        Returns:
            How many blocks were taken: none if the peer's copy has not grown.

        Raises:
            PeerGoneError: The peer did not answer, or sent too little for too long.
            NoCopyError: It has no such copy.
            RottenError: A block was not what its checksum says; those before it were taken.
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
                    self._answered(node)
                    return 0
                if response.status == 404:
                    self._answered(node)
                    raise NoCopyError
                if response.status != 200:
                    raise PeerGoneError(f"it answers with {response.status}")
                header = self._header(nonce, response)
                if header.first != first:
                    raise RottenError
                await begin(header)
                return await self._take(node, header, response.content, take)
        except (*_GONE, PeerGoneError) as error:
            self.miss(node)
            raise PeerGoneError(str(error) or "no answer in time") from None

    def _header(self, nonce: str, response: aiohttp.ClientResponse) -> BlocksHeader:
        said = response.headers.get(BLOCKS, "")
        if not self._signer.check_answer(nonce, said, response.headers.get(ANSWER, "")):
            raise RottenError
        try:
            return msgspec.json.decode(said, type=BlocksHeader)
        except msgspec.DecodeError:
            raise RottenError from None

    async def _take(
        self, node: str, header: BlocksHeader, content: aiohttp.StreamReader, take: Take
    ) -> int:
        for number, code in enumerate(header.codes, header.first):
            begin, end = blocks.span_of(number, header.size)
            data = await _read(content, end - begin)
            if blocks.checksum(data) != code:
                raise RottenError
            self._answered(node)
            await take(number, data, code)
        return len(header.codes)

    def _answered(self, node: str) -> None:
        breaker = self.breakers.get(node)
        if breaker is not None:
            breaker.answer()

    def _url(self, node: str, target: str) -> str:
        return f"{self._scheme}://{node}{target}"

    def _signed(self, method: str, target: str, body: bytes) -> tuple[str, dict[str, str]]:
        signature = self._signer.sign(method, target, body, time.time())
        return signature.nonce, {SIGNATURE: signature.encode()}

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
        PeerGoneError: The peer has hung up before, or takes longer than BLOCK_SECONDS.
        TimeoutError: It has sent nothing for MISS_SECONDS.
    """
    data = bytearray()
    # One wait_for() within another one may swallow the end of the outer one before Python 3.12.
    until = time.monotonic() + BLOCK_SECONDS
    while len(data) < length:
        if time.monotonic() >= until:
            raise PeerGoneError("it is too slow")
        piece = await asyncio.wait_for(content.read(length - len(data)), MISS_SECONDS)
        if not piece:
            raise PeerGoneError("it hung up")
        data += piece
    return data
