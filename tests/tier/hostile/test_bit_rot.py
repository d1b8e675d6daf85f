# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Bytes of a copy that a disk has changed are found when the copy is reread."""

from __future__ import annotations

import pytest

from tests.support.controllers import wait_for
from tests.support.tier_machine import READER, daemon
from tests.support.tiers import SCRUB_SECONDS


@pytest.mark.slow
@pytest.mark.parametrize("when", ["while the daemon runs", "before it starts"])
def test_a_bit_of_a_copy_that_flips(machine, public, big, when):
    with daemon(machine, "--shared", "--scrub", "1s") as found:
        found.read_from_copy(READER, public, big)
        (copy,) = machine.stored(found.store, len(big))
        if when == "before it starts":
            found.kill()
        with machine.path(copy).open("r+b") as file:
            file.seek(len(big) // 2)
            byte = file.read(1)[0]
            file.seek(len(big) // 2)
            file.write(bytes([byte ^ 1]))
        if when == "before it starts":
            found.restart()
        wait_for(lambda: found.counted("rotten") == 1, SCRUB_SECONDS)
        with machine.reader(READER) as reader:
            assert reader.read(public) == big
