# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Signatures of requests and responses between nodes: HMAC with a shared secret.

A sender without the secret gets no data, and its data is not accepted. A signature covers the
method, the path with its query, the time, a nonce and the body. A response is signed, too, with
the nonce of its request, as a forged peer could otherwise send any bytes together with their
checksums.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

SKEW_SECONDS: Final = 60.0
"""Maximum difference between the clocks of two nodes."""
LEAST_SECRET: Final = 16
"""Minimum length of a secret, in bytes."""
_MOST_SEEN: Final = 200_000


@dataclass(frozen=True)
class Signature:
    """The signature sent with a request.

    Attributes:
        at: Time of the signature, in seconds since 1970.
        nonce: Number that is used once.
        code: HMAC-SHA256 in hexadecimal.
    """

    at: float
    nonce: str
    code: str

    def encode(self) -> str:
        """Return the signature as the value of a header."""
        return f"{self.at:.3f} {self.nonce} {self.code}"


def decode(text: str) -> Signature:
    """Decode the result of Signature.encode().

    Raises:
        ValueError: The text is malformed.
    """
    at, nonce, code = text.split(" ")
    if not 1 <= len(nonce) <= 64:
        raise ValueError("the nonce of a signature has 1 to 64 letters")
    return Signature(float(at), nonce, code)


class Signer:
    """Signer and verifier of messages, with the secret that the nodes share."""

    def __init__(self, secret: bytes) -> None:
        """Create a signer with this secret.

        Raises:
            ValueError: The secret is too short.
        """
        if len(secret) < LEAST_SECRET:
            raise ValueError(
                f"the nodes' secret must have at least {LEAST_SECRET} bytes, not {len(secret)}"
            )
        self._secret = secret
        self._seen: OrderedDict[str, float] = OrderedDict()

    def sign(self, method: str, target: str, body: bytes, now: float) -> Signature:
        """Return the signature of a request.

        Args:
            method: HTTP method.
            target: Path and query, as they are sent.
            body: Body of the request.
            now: Current time in seconds since 1970.
        """
        at, nonce = round(now, 3), secrets.token_hex(8)
        return Signature(at, nonce, self._code(method, target, f"{at:.3f}", nonce, body))

    def check(self, method: str, target: str, body: bytes, said: str, now: float) -> str:
        """Verify the signature of a request that has not been seen before; return its nonce.

        Raises:
            ValueError: The signature is missing or wrong, its time differs by more than
                SKEW_SECONDS, or the nonce was seen before; the message is one sentence.
        """
        try:
            found = decode(said)
        except ValueError:
            raise ValueError("the request is not signed") from None
        code = self._code(method, target, f"{found.at:.3f}", found.nonce, body)
        if not hmac.compare_digest(code, found.code):
            raise ValueError("the request is signed with another secret")
        if not abs(now - found.at) <= SKEW_SECONDS:
            raise ValueError(
                f"the clocks of the nodes differ by {abs(now - found.at):.0f} s, more than"
                f" {SKEW_SECONDS:.0f} s"
            )
        if found.nonce in self._seen:
            raise ValueError("the request was sent before")
        self._seen[found.nonce] = now
        self._forget(now)
        return found.nonce

    def sign_answer(self, nonce: str, said: str) -> str:
        """Return the HMAC of the response to a request with this nonce."""
        return self._code("answer", nonce, said)

    def check_answer(self, nonce: str, said: str, code: str) -> bool:
        """Return whether the response comes from a node with the secret."""
        return hmac.compare_digest(self.sign_answer(nonce, said), code)

    def _code(self, *parts: str | bytes) -> str:
        code = hmac.new(self._secret, digestmod=hashlib.sha256)
        for part in parts:
            data = part.encode(errors="surrogateescape") if isinstance(part, str) else part
            code.update(len(data).to_bytes(8, "big") + data)
        return code.hexdigest()

    def _forget(self, now: float) -> None:
        """Forget nonces whose requests would be too old by now, the oldest first."""
        while self._seen:
            nonce, at = next(iter(self._seen.items()))
            if now - at <= 2 * SKEW_SECONDS and len(self._seen) <= _MOST_SEEN:
                return
            del self._seen[nonce]
