# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Copies are published wherever daemon and readers run: under the unit, and in containers."""

from __future__ import annotations

import pytest

from tests.support.tier_machine import DATA, OTHER, OWNER, READER, STORE, daemon

# As the how-to has it: docker run -v DATA:DATA:ro -v STORE:STORE -v RUN:RUN.
CONTAINER = f"""
mount --bind {DATA} {DATA}
mount -o remount,bind,ro {DATA}
mount --bind {STORE} {STORE}
mount --bind /run/tf_malleable-tier /run/tf_malleable-tier
"""
# As the DaemonSet has it, with /mnt for /tier: the node's folder, mounted into each pod, whose
# root is read-only.
NODE = "/var/cache/node"
POD = f"""
mount --bind {DATA} {DATA}
mount -o remount,bind,ro {DATA}
mount --bind {NODE} /mnt
mount -o remount,bind,ro /
"""
SMALL = b"small" * 1000


@pytest.fixture
def private(machine, big):
    """A large file that only its owner may read."""
    return machine.file(f"{DATA}/own/big", big, OWNER, 0o600)


@pytest.mark.parametrize("within", ["", CONTAINER], ids=["host", "container"])
def test_a_public_file_under_the_unit(machine, unit, public, big, within):
    unit.read_from_copy(READER, public, big, within=within)
    unit.read_from_copy(OTHER, public, big, within=within)


@pytest.mark.parametrize("within", ["", CONTAINER], ids=["host", "container"])
def test_a_private_file_under_the_unit(machine, unit, private, big, within):
    unit.read_from_copy(OWNER, private, big, within=within)


def test_a_small_private_file_under_the_unit(machine, unit):
    path = machine.file(f"{DATA}/own/small", SMALL, OWNER, 0o600)
    unit.read_from_copy(OWNER, path, SMALL)


def test_a_private_file_in_a_container(machine, shared, private, big):
    shared.read_from_copy(OWNER, private, big, within=CONTAINER)


@pytest.mark.parametrize("size", ["big", "small"])
def test_a_file_in_a_daemon_sets_pods(machine, size, big):
    """One user, without --shared."""
    data = big if size == "big" else SMALL
    path = machine.file(f"{DATA}/set/{size}", data)
    machine.folder(NODE, OWNER)
    places = {
        "store": "/mnt/store",
        "socket": "/mnt/run/tier.sock",
        "control": f"{NODE}/run/tier.sock.control",
    }
    # The daemon's pod and those of the trainings each have a mount of their own.
    for inside in ("store", "run"):
        machine.folder(f"{NODE}/{inside}", OWNER)
    with daemon(machine, uid=OWNER, within=POD, **places) as found:
        chosen = {"TF_MALLEABLE_TIER_SOCKET": "/mnt/run/tier.sock"}
        found.read_from_copy(OWNER, path, data, within=POD, environment=chosen)
