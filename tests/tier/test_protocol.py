# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The daemon's protocol is the shim's: layouts and numbers as the compiler has them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tf_malleable.tier import protocol
from tf_malleable.tier.protocol import (
    Identity,
    MapHead,
    MapState,
    MessageKind,
    ReaderCounts,
    ReaderMessage,
    Reply,
    StateFlag,
)

ROOT = Path(__file__).parents[2]
# Each field with a value of its own, so that a field at another place shows.
PROGRAM = r"""
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "cc/tier/protocol.h"
using namespace tf_malleable::tier;

static Identity MakeIdentity() {
  Identity it;
  memset(&it, 0, sizeof(it));
  it.magic = kIdentityMagic; it.version = kVersion;
  it.device = 101; it.inode = 102; it.size = 103;
  it.mtime_s = 104; it.ctime_s = 105; it.atime_s = 106; it.btime_s = 107;
  it.mtime_ns = 108; it.ctime_ns = 109; it.atime_ns = 110; it.btime_ns = 111;
  it.mode = 112; it.uid = 113; it.gid = 114; it.links = 115;
  it.blocks = 116; it.block_size = 117; it.copy_inode = 118;
  return it;
}

template <typename T>
static void Print(const char* name, const T& value) {
  printf("%s=", name);
  for (size_t i = 0; i < sizeof(value); ++i) {
    printf("%02x", reinterpret_cast<const unsigned char*>(&value)[i]);
  }
  printf("\n");
}
#define NUMBER(name) printf(#name "=%lld\n", static_cast<long long>(name))

int main() {
  const Identity identity = MakeIdentity();
  Print("identity", identity);
  MapHeader map;
  memset(&map, 0, sizeof(map));
  map.magic = kMapMagic; map.version = kVersion; map.unit = 4096; map.units = 1;
  map.state = kIsFull; map.fetching = 1; map.identity = identity;
  Print("map", map);
  Message message;
  memset(&message, 0, sizeof(message));
  message.magic = kMessageMagic; message.kind = kWhole; message.identity = identity;
  message.counts.copy_opens = 1; message.counts.copy_bytes = 2;
  message.counts.source_opens = 3; message.counts.source_bytes = 4;
  message.counts.growing_bytes = 5; message.counts.waits = 6; message.counts.wait_ns = 7;
  Print("message", message);
  printf("valid=%zu\nunasked=%zu\nstate=%zu\nfetching=%zu\n", offsetof(State, valid_until),
         offsetof(State, unasked), offsetof(MapHeader, state), offsetof(MapHeader, fetching));
  printf("stamp=%lld\nstamp_of_old=%lld\n",
         static_cast<long long>(VersionStamp(102, 103, 104, 108, 105, 109)),
         static_cast<long long>(VersionStamp(~uint64_t{0}, 1 << 30, -5, 999999999, 1, 0)));
  NUMBER(kVersion); NUMBER(kStateMagic); NUMBER(kStateBytes); NUMBER(kUnaskedFolders);
  NUMBER(kMaxStateTextBytes); NUMBER(kSmallFileBytes); NUMBER(kMapHeaderBytes);
  NUMBER(kMinUnitBytes); NUMBER(kMaxUnits);
  NUMBER(kIsGrowing); NUMBER(kIsFull); NUMBER(kIsDropped);
  NUMBER(kReading); NUMBER(kClosed); NUMBER(kUnseen); NUMBER(kCounts); NUMBER(kWhole);
  NUMBER(kAsk);
  NUMBER(kFills); NUMBER(kAsks); NUMBER(kShared); NUMBER(kUnchecked); NUMBER(kSyncs);
  NUMBER(kUseSource); NUMBER(kUseCopy); NUMBER(kFollow); NUMBER(kWait);
  printf("kSourceAttribute=%s\nkBlocksAttribute=%s\n", kSourceAttribute, kBlocksAttribute);
}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("protocol")
    (folder / "print.cc").write_text(PROGRAM)
    command = ["g++", "-std=c++17", "-I", str(ROOT), "print.cc", "-o", "print"]
    subprocess.run(command, cwd=folder, check=True)
    printed = subprocess.run([folder / "print"], capture_output=True, text=True, check=True).stdout
    return dict(line.split("=", 1) for line in printed.splitlines())


IDENTITY = Identity(*range(101, 119))


def test_the_layouts(compiled):
    assert IDENTITY.encode().hex() == compiled["identity"]
    head = MapHead(4096, 1, MapState.FULL, IDENTITY._replace(size=1))
    assert MapHead.decode(head.encode(is_fetching=True)) == head
    map_of_compiler = bytes.fromhex(compiled["map"])
    assert MapHead(4096, 1, MapState.FULL, IDENTITY).encode(is_fetching=True) == map_of_compiler
    message = ReaderMessage(MessageKind.WHOLE, ReaderCounts(1, 2, 3, 4, 5, 6, 7), "", IDENTITY)
    assert message.encode().hex() == compiled["message"]


def test_the_stamp_of_a_version(compiled):
    assert IDENTITY.version_stamp() == int(compiled["stamp"])
    old = IDENTITY._replace(
        inode=2**64 - 1, size=2**30, mtime_s=-5, mtime_ns=999_999_999, ctime_s=1, ctime_ns=0
    )
    assert old.version_stamp() == int(compiled["stamp_of_old"])


def test_every_change_of_a_file_gives_another_stamp_of_the_past():
    fields = ("inode", "size", "mtime_s", "mtime_ns", "ctime_s", "ctime_ns")
    changed = [IDENTITY] + [
        IDENTITY._replace(**{field: 1000 + step}) for field in fields for step in range(1000)
    ]
    stamps = {each.version_stamp() for each in changed}
    assert len(stamps) == len(changed)
    in_1988 = 18 * 365 * 86_400 * 10**9
    assert all(0 <= stamp < in_1988 for stamp in stamps)


def test_the_numbers(compiled):
    numbers = {
        "kVersion": protocol.VERSION,
        "kStateMagic": protocol.STATE_MAGIC,
        "kStateBytes": protocol.STATE_BYTES,
        "kUnaskedFolders": protocol.UNASKED,
        "kMaxStateTextBytes": protocol.MOST_TEXT,
        "kSmallFileBytes": protocol.SMALL_FILE_BYTES,
        "kMapHeaderBytes": protocol.MAP_BYTES,
        "kMinUnitBytes": protocol.unit_of(1),
        "kIsGrowing": MapState.GROWING,
        "kIsFull": MapState.FULL,
        "kIsDropped": MapState.DROPPED,
        "kUseSource": Reply.SOURCE,
        "kUseCopy": Reply.COPY,
        "kFollow": Reply.FOLLOW,
        "kWait": Reply.WAIT,
        "valid": protocol.VALID_OFFSET,
        "unasked": protocol.UNASKED_OFFSET,
        "state": protocol.STATE_OFFSET,
        "fetching": protocol.FETCHING_OFFSET,
    }
    numbers |= {f"k{kind.name.capitalize()}": kind for kind in MessageKind}
    numbers |= {f"k{flag.name.capitalize()}": flag for flag in StateFlag if flag.name}
    assert numbers == {name: int(compiled[name]) for name in numbers}
    most = int(compiled["kMaxUnits"]) * int(compiled["kMinUnitBytes"])
    assert protocol.unit_of(most) < protocol.unit_of(most + 1)
    assert compiled["kSourceAttribute"] == protocol.SOURCE_ATTRIBUTE
    assert compiled["kBlocksAttribute"] == protocol.BLOCKS_ATTRIBUTE
