# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The first program of a user begins copies, as all others do."""

from __future__ import annotations

import itertools

import pytest

from tests.support.tier_machine import DATA
from tests.support.tiers import read_until


@pytest.mark.parametrize("mode", [0o600, 0o644], ids=["private", "public"])
def test_a_file_is_copied_at_the_first_read_of_its_user(machine, shared, big, mode):
    users = itertools.count(5001)

    def read_first() -> None:
        # Another user each time, for whom it is the first.
        uid = next(users)
        machine.folder(machine.home(uid), uid, 0o700)
        path = machine.file(f"{DATA}/own/{uid}", big, uid, mode)
        assert machine.read(uid, path) == big

    read_until(lambda: shared.status()["copies"] > 0, read_first)
