# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Signatures: what a node without the secret, or with an old request, is told."""

from __future__ import annotations

import hashlib

import pytest

from tf_malleable.tier.request_signature import SKEW_SECONDS, Signer

SECRET = b"a secret of the nodes"


def signed(now: float = 1000.0, target: str = "/v1/blocks?x=1") -> str:
    return Signer(SECRET).sign("GET", target, b"", now)[1]


def test_a_signed_request_is_taken_once():
    signer, said = Signer(SECRET), signed()
    nonce, body = signer.check("GET", "/v1/blocks?x=1", said, 1001.0)
    assert said.split(" ")[1] == nonce
    assert body == hashlib.sha256(b"").hexdigest()
    with pytest.raises(ValueError, match="sent before"):
        signer.check("GET", "/v1/blocks?x=1", said, 1001.0)


@pytest.mark.parametrize(
    ("method", "target", "secret"),
    [
        ("POST", "/v1/blocks?x=1", SECRET),
        ("GET", "/v1/blocks?x=2", SECRET),
        ("GET", "/v1/blocks?x=1", b"the secret of others"),
    ],
)
def test_anything_else_is_not(method, target, secret):
    with pytest.raises(ValueError, match="another secret"):
        Signer(secret).check(method, target, signed(), 1000.0)


@pytest.mark.parametrize("part", range(4))
def test_a_signature_of_which_a_part_is_another(part):
    parts, others = signed().split(" "), Signer(SECRET).sign("GET", "/x", b"x", 1001.0)[1]
    parts[part] = others.split(" ")[part]
    with pytest.raises(ValueError, match="another secret"):
        Signer(SECRET).check("GET", "/v1/blocks?x=1", " ".join(parts), 1000.0)


def test_a_signature_of_any_letters():
    with pytest.raises(ValueError, match="another secret"):
        Signer(SECRET).check("GET", "/", "1.0 n b \udcff\u2028", 1000.0)


@pytest.mark.parametrize(
    "said", ["", "x", "1.0 n b", "x n b c", "1.0  b c", "1.0 " + "n" * 65 + " b c"]
)
def test_an_unsigned_request(said):
    with pytest.raises(ValueError, match="not signed"):
        Signer(SECRET).check("GET", "/", said, 1000.0)


@pytest.mark.parametrize("later", [-SKEW_SECONDS - 1, SKEW_SECONDS + 1])
def test_clocks_that_differ(later):
    with pytest.raises(ValueError, match="clocks of the nodes differ by 61 s"):
        Signer(SECRET).check("GET", "/v1/blocks?x=1", signed(), 1000.0 + later)


def test_numbers_are_forgotten_only_when_they_are_too_old_anyway():
    signer = Signer(SECRET)
    first = signed(1000.0)
    signer.check("GET", "/v1/blocks?x=1", first, 1000.0)
    for now in (1059.0, 1119.0):
        signer.check("GET", "/v1/blocks?x=1", signed(now), now)
    with pytest.raises(ValueError, match="before"):
        signer.check("GET", "/v1/blocks?x=1", first, 1060.0)


def test_an_answer_belongs_to_its_request():
    code = Signer(SECRET).sign_answer("n", "blocks")
    assert Signer(SECRET).check_answer("n", "blocks", code)
    assert not Signer(SECRET).check_answer("m", "blocks", code)
    assert not Signer(SECRET).check_answer("n", "block", code)
    assert not Signer(b"the secret of others").check_answer("n", "blocks", code)
    assert not Signer(SECRET).check_answer("n", "blocks", "\udcff")


def test_a_short_secret_is_refused():
    with pytest.raises(ValueError, match="at least 16 bytes, not 5"):
        Signer(b"short")


def test_with_certificates_there_may_be_no_secret():
    signer = Signer(b"", has_certificates=True)
    nonce, said = signer.sign("GET", "/x", b"", 1000.0)
    assert signer.check("GET", "/x", said, 1000.0) == (nonce, hashlib.sha256(b"").hexdigest())
    assert signer.check_answer("n", "blocks", signer.sign_answer("n", "blocks"))
    with pytest.raises(ValueError, match="another secret"):
        Signer(SECRET).check("GET", "/x", said, 1000.0)
    with pytest.raises(ValueError, match="at least 16 bytes, not 0"):
        Signer(b"")
    with pytest.raises(ValueError, match="at least 16 bytes, not 5"):
        Signer(b"short", has_certificates=True)
