# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a library exports, asked of the file: as the linker says, and never a crash."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from tf_malleable.runtime import elf, library
from tf_malleable.runtime.elf import exported, exports
from tf_malleable.runtime.tensorflow_install import find_tensorflow

*_, OVERLAY = library.overlays().values()


@pytest.mark.parametrize("name", ["tfm_abi_version", "tfm_set_threads", "tfm_wait_settled"])
def test_what_the_overlay_exports_is_found(name):
    assert exports(OVERLAY, name)


@pytest.mark.parametrize("name", ["tfm_abi", "tfm_abi_versions", "dlopen", ""])
def test_a_part_of_a_name_or_what_it_only_uses_is_not(name):
    assert not exports(OVERLAY, name)


def test_all_that_is_exported_is_listed():
    command = ["nm", "--dynamic", "--defined-only", "--extern-only", "--format=posix", OVERLAY]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {line.split()[0] for line in output.splitlines()}
    assert len(names) > 15
    assert exported(OVERLAY) == names


def test_what_is_no_library_has_no_list(tmp_path):
    file = tmp_path / "lib.so"
    with pytest.raises(OSError, match="lib"):
        exported(file)
    for text in (b"\x7fELF", OVERLAY.read_bytes()[:4000]):
        file.write_bytes(text)
        with pytest.raises(ValueError, match=r"library|ELF|file"):
            exported(file)


def test_stock_tensorflow_has_no_hook():
    found = find_tensorflow()
    assert found is not None
    framework = found.directory / library.FRAMEWORK
    assert exports(framework, "SSL_CTX_new")
    assert not exports(framework, "tfm_abi_version")


@pytest.mark.slow
def test_the_slots_of_a_symbol_are_those_that_readelf_shows():
    found = find_tensorflow()
    assert found is not None
    framework = found.directory / library.FRAMEWORK
    symbol = "_ZN3tsl6thread10ThreadPoolD1Ev"
    command = ["readelf", "--relocs", "--syms", "--wide", str(framework)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    mine = [
        line.split() for line in lines if line.split()[-1:] == [symbol] or f" {symbol} + " in line
    ]
    slots = {int(fields[0], 16) for fields in mine if not fields[0].endswith(":")}
    own = {int(fields[1], 16) for fields in mine if fields[0].endswith(":")}
    binding = elf.binding(framework, symbol)
    assert binding is not None
    assert slots
    assert (own, set(binding.slots)) == ({binding.own}, slots)
    assert elf.binding(framework, "no_such_function") is None
    assert elf.binding(Path("/nowhere"), symbol) is None


@pytest.mark.slow
def test_what_is_called_directly_is_what_readelf_shows_no_relocation_of():
    found = find_tensorflow()
    assert found is not None
    framework = found.directory / library.FRAMEWORK
    bound, direct = "_ZN3tsl6thread10ThreadPoolD1Ev", "_ZN3tsl6thread10ThreadPoolD2Ev"
    command = ["readelf", "--relocs", "--wide", str(framework)]
    relocations = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f" {bound} + 0" in relocations
    assert direct not in relocations
    asked = [bound, direct, "no_such_function"]
    assert elf.calls_directly(framework, asked) == {direct}
    assert elf.calls_directly(Path("/nowhere"), asked) == frozenset()


def test_what_is_no_whole_library_exports_nothing_or_is_as_good(tmp_path):
    whole = OVERLAY.read_bytes()
    file = tmp_path / "lib.so"
    assert not exports(file, "tfm_abi_version")
    for text in (b"", b"\x7fELF", b"#!/bin/sh\n", whole[:64], whole[:4000]):
        file.write_bytes(text)
        assert not exports(file, "tfm_abi_version")
    generator = random.Random(1)
    for _ in range(300):
        broken = bytearray(whole)
        for _ in range(20):
            broken[generator.randrange(4096)] = generator.randrange(256)
        file.write_bytes(broken)
        assert exports(file, "tfm_abi_version") in (True, False)
