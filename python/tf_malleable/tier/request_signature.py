# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Signatures of requests and responses between nodes: HMAC with a shared secret.

A sender without the secret gets no data, and its data is not accepted. A signature covers the
method, the path with its query, the time, a nonce and the checksum of the body, so that it is
verified before the body is read. A response is signed, too, with the nonce of its request, as a
forged peer could otherwise send any bytes together with their checksums.

Without certificates, this alone shows who is a node. With TLS, whose certificates show that, the
secret may be left out, and nothing is signed: it is for an authority that signs for others, too.
TLS by the secret alone is no substitute: the ssl module has pre-shared keys since Python 3.13 only,
and blocks that are encrypted cost the sender 50 times the CPU time of sendfile().
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Final

SKEW_SECONDS: Final = 60.0
"""Maximum difference between the clocks of two nodes."""
LEAST_SECRET: Final = 16
"""Minimum length of a secret, in bytes."""
_MOST_SEEN: Final = 200_000
_UNSIGNED: Final = "unsigned"
# Time in seconds since 1970, nonce, SHA-256 of the body, and HMAC-SHA256 of all.
_SIGNATURE: Final = re.compile(r"((\d+\.\d+) (\S{1,64}) (\S+)) (.+)", re.DOTALL)


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
        # Nonces of requests with the times at which they came, the oldest first.
        self._seen: dict[str, float] = {}

    def sign(self, method: str, target: str, body: bytes, now: float) -> tuple[str, str]:
        """Return the nonce and the signature of a request.

        Args:
            method: HTTP method.
            target: Path and query, as they are sent.
            body: Body of the request.
            now: Current time in seconds since 1970.
        """
        nonce = secrets.token_hex(8)
        signed = f"{now:.3f} {nonce} {checksum(body)}"
        return nonce, f"{signed} {self._code(method, target, signed)}"

    def check(self, method: str, target: str, said: str, now: float) -> tuple[str, str]:
        """Verify the signature of a request that has not been seen before.

        Args:
            method: HTTP method.
            target: Path and query, as they were sent.
            said: Value of the header with the signature.
            now: Current time in seconds since 1970.

        Returns:
            The nonce, and the checksum of the body that belongs to the request.

        Raises:
            ValueError: The signature is missing or wrong, its time differs by more than
                SKEW_SECONDS, or the nonce was seen before; the message is one sentence.
        """
        found = _SIGNATURE.fullmatch(said)
        if found is None:
            raise ValueError("the request is not signed")
        signed, at, nonce, body, code = found.groups()
        if not _is_equal(self._code(method, target, signed), code):
            raise ValueError("the request is signed with another secret")
        skew = abs(now - float(at))
        if not skew <= SKEW_SECONDS:
            raise ValueError(
                f"the clocks of the nodes differ by {skew:.0f} s, more than {SKEW_SECONDS:.0f} s"
            )
        if nonce in self._seen:
            raise ValueError("the request was sent before")
        self._seen[nonce] = now
        # Those of which the requests would be too old by now.
        while now - next(iter(self._seen.values())) > 2 * SKEW_SECONDS or (
            len(self._seen) > _MOST_SEEN
        ):
            del self._seen[next(iter(self._seen))]
        return nonce, body

    def sign_answer(self, nonce: str, said: str) -> str:
        """Return the HMAC of the response to a request with this nonce."""
        return self._code("answer", nonce, said)

    def check_answer(self, nonce: str, said: str, code: str) -> bool:
        """Return whether the response comes from a node with the secret."""
        return _is_equal(self.sign_answer(nonce, said), code)

    def _code(self, *parts: str) -> str:
        if not self._secret:
            return _UNSIGNED
        code = hmac.new(self._secret, digestmod=hashlib.sha256)
        for part in parts:
            data = part.encode(errors="surrogateescape")
            code.update(len(data).to_bytes(8, "big") + data)
        return code.hexdigest()


def checksum(body: bytes) -> str:
    """Return the checksum of a body that its request's signature has."""
    return hashlib.sha256(body).hexdigest()


def _is_equal(code: str, said: str) -> bool:
    # Of bytes, as the text of a stranger may contain any letter.
    return hmac.compare_digest(code.encode(), said.encode(errors="surrogateescape"))
