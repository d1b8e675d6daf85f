# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Requests between nodes are signed: who has no secret gets no data, and none is believed.

A signature covers the method, the path with its query, the time and a number that is used once,
and the body. An answer is signed, too, with the number of its request, as a forged peer
could otherwise send any bytes together with their checksums.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

SKEW_SECONDS: Final = 60.0
"""By how much the clocks of two nodes may differ."""
LEAST_SECRET: Final = 16
"""Bytes of a secret, at least."""
_MOST_SEEN: Final = 200_000


@dataclass(frozen=True)
class Signature:
    """What is sent with a request.

    Attributes:
        at: When it was signed, in seconds since 1970.
        nonce: A number that is used once.
        code: The HMAC-SHA256.
    """

    at: float
    nonce: str
    code: str

    def encode(self) -> str:
        """Return it as the value of a header."""
        return f"{self.at:.3f} {self.nonce} {self.code}"


def decode(text: str) -> Signature:
    """Return what encode() has made.

    Raises:
        ValueError: It is no such text.
    """
    at, nonce, code = text.split(" ")
    if not 1 <= len(nonce) <= 64:
        raise ValueError("the nonce of a signature has 1 to 64 letters")
    return Signature(float(at), nonce, code)


class Signer:
    """Signs and checks with a secret that the nodes share."""

    def __init__(self, secret: bytes) -> None:
        """Use this secret.

        Raises:
            ValueError: It is too short.
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
            method: Of HTTP.
            target: Path and query, as they are sent.
            body: What is sent.
            now: Seconds since 1970.
        """
        at, nonce = round(now, 3), secrets.token_hex(8)
        return Signature(at, nonce, self._code(method, target, f"{at:.3f}", nonce, body))

    def check(self, method: str, target: str, body: bytes, said: str, now: float) -> str:
        """Return the number of a request that is well signed, and was not seen before.

        Raises:
            ValueError: It is not; the message is one sentence.
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
        """Return the code of what is said in answer to a request."""
        return self._code("answer", nonce, said)

    def check_answer(self, nonce: str, said: str, code: str) -> bool:
        """Return whether a node with the secret has said so."""
        return hmac.compare_digest(self.sign_answer(nonce, said), code)

    def _code(self, *parts: str | bytes) -> str:
        code = hmac.new(self._secret, digestmod=hashlib.sha256)
        for part in parts:
            data = part.encode(errors="surrogateescape") if isinstance(part, str) else part
            code.update(len(data).to_bytes(8, "big") + data)
        return code.hexdigest()

    def _forget(self, now: float) -> None:
        """Forget numbers that are too old to be taken again, the oldest first."""
        while self._seen:
            nonce, at = next(iter(self._seen.items()))
            if now - at <= 2 * SKEW_SECONDS and len(self._seen) <= _MOST_SEEN:
                return
            del self._seen[nonce]
