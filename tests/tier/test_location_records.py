# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A home's records: one claim a file, then holders."""

from __future__ import annotations

from tf_malleable.tier.peers.location_records import LEASE_SECONDS, Location, Records


def test_the_first_who_asks_reads_the_source_and_the_others_follow():
    records = Records()
    assert records.ask("f", "1", "a", 0.0) == Location(True)
    assert records.ask("f", "1", "b", 0.1) == Location(False, ("a",), False)
    records.hold("f", "1", "a")
    assert records.ask("f", "1", "b", 0.2) == Location(False, ("a",), True)
    records.hold("f", "1", "b")
    assert records.ask("f", "1", "c", 0.3).holders == ("a", "b")


def test_whoever_has_the_claim_or_a_copy_is_not_sent_to_itself():
    records = Records()
    records.ask("f", "1", "a", 0.0)
    assert records.ask("f", "1", "a", 1.0) == Location(True)
    records.hold("f", "1", "a")
    assert records.ask("f", "1", "a", 2.0) == Location(True)


def test_a_claim_ends_if_nobody_renews_it():
    records = Records()
    records.ask("f", "1", "a", 0.0)
    records.keep_claims(["f", "other"], "a", 5.0)
    records.keep_claims(["f"], "b", 9.0)
    assert not records.ask("f", "1", "b", 4.9 + LEASE_SECONDS).is_yours
    assert records.ask("f", "1", "b", 5.0 + LEASE_SECONDS).is_yours


def test_another_version_replaces_what_is_known():
    records = Records()
    records.hold("f", "1", "a")
    assert records.ask("f", "2", "b", 0.0) == Location(True)
    records.hold("f", "1", "a")
    assert records.ask("f", "1", "b", 0.0).holders == ("a",)


def test_released_and_forgotten():
    records = Records()
    records.ask("f", "1", "a", 0.0)
    records.release("f", "b")
    assert not records.ask("f", "1", "b", 0.1).is_yours
    records.release("f", "a")
    assert len(records) == 0
    records.hold("f", "1", "a")
    records.hold("g", "1", "a")
    records.hold("g", "1", "b")
    records.forget("a")
    assert len(records) == 1
    assert records.ask("g", "1", "c", 0.0).holders == ("b",)
    records.release("unknown", "a")


def test_a_sole_copy():
    records = Records()
    assert not records.is_sole("f", "a")
    records.hold("f", "1", "a")
    assert records.is_sole("f", "a")
    assert not records.is_sole("f", "b")
    records.hold("f", "1", "b")
    assert not records.is_sole("f", "a")
