# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Upstream: the S3 service from which objects come, asked with the daemon's own credentials.

A client's signature covers the host that it sent the request to, so a request is signed anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Mapping
from typing import Any, Final

import aiohttp
from yarl import URL

from tf_malleable.tier.object_names import ObjectTarget

ANSWER_SECONDS: Final = 60.0
"""Time limit for the header of an answer, and for each piece of its body."""
FAILURES: Final = (aiohttp.ClientError, OSError, asyncio.TimeoutError, asyncio.IncompleteReadError)
"""What may go wrong while the body of an answer is read."""
_CONNECT_SECONDS: Final = 10.0
_DIGEST: Final = "x-amz-content-sha256"
# What a proxy may change is not signed.
_NOT_SIGNED: Final = (_DIGEST, "accept", "accept-encoding", "content-length", "range")


class UpstreamError(OSError):
    """The S3 service does not answer; the message is one sentence."""


class Upstream:
    """HTTP client for an S3 service.

    Attributes:
        endpoint: URL of the service.
    """

    def __init__(self) -> None:
        """Find endpoint, region and credentials as the AWS SDKs do. Blocks.

        Raises:
            ValueError: There are no credentials, or a setting is invalid.
        """
        try:
            import botocore.exceptions
            import botocore.session
        except ImportError:
            raise ValueError("a source in S3 needs botocore: pip install botocore") from None
        session = botocore.session.get_session()
        try:
            about = session.create_client("s3").meta
            self._credentials = session.get_credentials()
        except (botocore.exceptions.BotoCoreError, ValueError) as error:
            raise ValueError(f"S3 cannot be used: {str(error).rstrip('.')}") from None
        if self._credentials is None:
            raise ValueError("there are no AWS credentials: set AWS_PROFILE, or run aws configure")
        named = about.region_name
        self._region = named if named not in (None, "aws-global") else "us-east-1"
        self.endpoint: str = about.endpoint_url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Be ready for requests."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=True,
            read_bufsize=1 << 20,
        )

    async def stop(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def ask(
        self,
        method: str,
        target: ObjectTarget,
        headers: Mapping[str, str],
        body: AsyncIterable[bytes] | None = None,
    ) -> aiohttp.ClientResponse:
        """Send a request, and return the answer, whose body the caller reads or closes.

        The names of headers are in lower case, and none is of a signature.

        Raises:
            UpstreamError: The service did not answer.
        """
        assert self._session is not None
        url = self.endpoint + target.raw
        try:
            # In a thread: new credentials may come from the network.
            signed = await asyncio.to_thread(self._signed, method, url, headers)
            asked = self._session.request(
                method, URL(url, encoded=True), headers=signed, data=body, allow_redirects=False
            )
            # A body may take any time.
            return await asyncio.wait_for(asked, ANSWER_SECONDS if body is None else None)
        except Exception as error:
            # botocore has many kinds for credentials that cannot be renewed.
            said = str(error) or type(error).__name__
            raise UpstreamError(f"{self.endpoint} cannot be asked: {said}") from None

    def _signed(self, method: str, url: str, headers: Mapping[str, str]) -> dict[str, str]:
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest

        class Auth(S3SigV4Auth):  # type: ignore[misc]
            def payload(self, request: Any) -> str:  # noqa: ANN401
                return headers.get(_DIGEST, "UNSIGNED-PAYLOAD")

        request = AWSRequest(
            method=method,
            url=url,
            headers={name: value for name, value in headers.items() if name not in _NOT_SIGNED},
        )
        Auth(self._credentials.get_frozen_credentials(), "s3", self._region).add_auth(request)
        # The names of the signature's headers are in other cases.
        return {**headers, **{name.lower(): value for name, value in request.headers.items()}}
