# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The first program of a user begins copies, as all others do."""

from __future__ import annotations

from tests.support.controllers import wait_for
from tests.support.tier_machine import DATA, OWNER


def test_a_private_file_is_copied_at_the_first_read_of_its_user(machine, shared, big):
    path = machine.file(f"{DATA}/own/big", big, OWNER, 0o600)
    assert machine.read(OWNER, path) == big
    wait_for(lambda: shared.status()["copies"] == 1, 10.0)


def test_a_public_file_is_copied_at_the_first_read(machine, shared, public, big):
    assert machine.read(OWNER, public) == big
    wait_for(lambda: shared.status()["copies"] == 1)
