# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Signatures of requests and responses between nodes: HMAC with a shared secret.

A sender without the secret gets no data, and its data is not accepted. A signature covers the
method, the path with its query, the time, a nonce and the checksum of the body, so that it is
verified before the body is read. A response is signed, too, with the nonce of its request, as a
forged peer could otherwise send any bytes together with their checksums.

Without certificates, this alone shows who is a node. With TLS, whose certificates show that, the
secret may be left out, and nothing is signed: it is for an authority that signs for others, too.
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
_UNSIGNED: Final = "unsigned"


@dataclass(frozen=True)
class Signature:
    """The signature sent with a request.

    Attributes:
        at: Time of the signature, in seconds since 1970.
        nonce: Number that is used once.
        body: SHA-256 of the request's body, in hexadecimal.
        code: HMAC-SHA256 in hexadecimal.
    """

    at: float
    nonce: str
    body: str
    code: str

    def encode(self) -> str:
        """Return the signature as the value of a header."""
        return f"{self.at:.3f} {self.nonce} {self.body} {self.code}"


def decode(text: str) -> Signature:
    """Decode the result of Signature.encode().

    Raises:
        ValueError: The text is malformed.
    """
    at, nonce, body, code = text.split(" ")
    if not 1 <= len(nonce) <= 64:
        raise ValueError("the nonce of a signature has 1 to 64 letters")
    return Signature(float(at), nonce, body, code)


@dataclass(frozen=True)
class Checked:
    """A request whose signature is right, before its body is read.

    Attributes:
        nonce: Number that the request alone has.
        body: SHA-256 of the signed body, in hexadecimal.
    """

    nonce: str
    body: str

    def is_of(self, body: bytes) -> bool:
        """Return whether this is the signed body."""
        return hmac.compare_digest(_checksum(body), self.body)


class Signer:
    """Signer and verifier of messages, with the secret that the nodes share."""

    def __init__(self, secret: bytes, has_certificates: bool = False) -> None:
        """Create a signer.

        Args:
            secret: Secret of the nodes.
            has_certificates: Whether TLS verifies that senders are nodes; the secret may be empty
                then.

        Raises:
            ValueError: The secret is too short.
        """
        if len(secret) < LEAST_SECRET and (secret or not has_certificates):
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
        at, nonce, checksum = round(now, 3), secrets.token_hex(8), _checksum(body)
        code = self._code(method, target, f"{at:.3f}", nonce, checksum)
        return Signature(at, nonce, checksum, code)

    def check(self, method: str, target: str, said: str, now: float) -> Checked:
        """Verify the signature of a request that has not been seen before.

        Args:
            method: HTTP method.
            target: Path and query, as they were sent.
            said: Value of the header with the signature.
            now: Current time in seconds since 1970.

        Raises:
            ValueError: The signature is missing or wrong, its time differs by more than
                SKEW_SECONDS, or the nonce was seen before; the message is one sentence.
        """
        try:
            found = decode(said)
        except ValueError:
            raise ValueError("the request is not signed") from None
        code = self._code(method, target, f"{found.at:.3f}", found.nonce, found.body)
        # Of bytes, as the text of a stranger may contain any letter.
        if not hmac.compare_digest(code.encode(), found.code.encode(errors="surrogateescape")):
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
        return Checked(found.nonce, found.body)

    def sign_answer(self, nonce: str, said: str) -> str:
        """Return the HMAC of the response to a request with this nonce."""
        return self._code("answer", nonce, said)

    def check_answer(self, nonce: str, said: str, code: str) -> bool:
        """Return whether the response comes from a node with the secret."""
        return hmac.compare_digest(self.sign_answer(nonce, said), code)

    def _code(self, *parts: str | bytes) -> str:
        if not self._secret:
            return _UNSIGNED
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


def _checksum(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
