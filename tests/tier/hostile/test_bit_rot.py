# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Bytes of a copy that a disk has changed reach no program."""

from __future__ import annotations

import pytest

from tests.support.tier_machine import READER

UNVERIFIED = "checksums are compared after a reboot, at `tfm tier check` and by peers alone"


@pytest.mark.xfail(strict=True, reason=UNVERIFIED)
@pytest.mark.parametrize("when", ["while the daemon runs", "before it starts"])
def test_a_bit_of_a_copy_that_flips(machine, shared, public, big, when):
    shared.read_from_copy(READER, public, big)
    (copy,) = machine.stored(shared.store, len(big))
    if when == "before it starts":
        shared.kill()
    with machine.path(copy).open("r+b") as file:
        file.seek(len(big) // 2)
        byte = file.read(1)[0]
        file.seek(len(big) // 2)
        file.write(bytes([byte ^ 1]))
    if when == "before it starts":
        shared.restart()
    with machine.reader(READER) as reader:
        assert reader.read(public) == big
