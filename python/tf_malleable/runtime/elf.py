# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""ELF reader: the symbols of a shared library, without loading it.

TensorFlow's framework library cannot be loaded to read its symbols, as the overlay has to
be loaded before it.
"""

from __future__ import annotations

import mmap
import struct
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PT_LOAD: Final = 1
_PT_DYNAMIC: Final = 2
_DT_PLTRELSZ: Final = 2
_DT_STRTAB: Final = 5
_DT_SYMTAB: Final = 6
_DT_RELA: Final = 7
_DT_RELASZ: Final = 8
_DT_JMPREL: Final = 23
_DT_GNU_HASH: Final = 0x6FFFFEF5
_DT_RELACOUNT: Final = 0x6FFFFFF9
_SYMBOL_SIZE: Final = 24
_RELOCATION_SIZE: Final = 24
# R_X86_64_64 (in a table of virtual functions), R_X86_64_GLOB_DAT and R_X86_64_JUMP_SLOT.
_SLOT_RELOCATIONS: Final = (1, 6, 7)


def exports(library: Path, symbol: str) -> bool:
    """Return whether a shared library defines a dynamic symbol.

    The result is also False if the file is missing, is not a 64-bit little-endian ELF file,
    or has no GNU hash table (linkers for Linux write one). For the lookup see
    https://flapenguin.me/elf-dt-gnu-hash.
    """
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as image:
            return _Image(image).defines(symbol.encode())
    except (OSError, ValueError, KeyError, ArithmeticError, struct.error):
        return False


def exported(library: Path) -> frozenset[str]:
    """Return the dynamic symbols that a shared library defines.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not a 64-bit little-endian ELF file with a GNU hash table.
    """
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as image:
        try:
            return frozenset(name.decode() for name in _Image(image).defined())
        except (KeyError, ArithmeticError, struct.error) as error:
            raise ValueError(f"{library} is not a complete shared library") from error


@dataclass(frozen=True)
class Binding:
    """Binding of a symbol in a shared library: the functions that calls of it may reach.

    All addresses are relative to the load address of the library.

    Attributes:
        own: Address of the library's own definition.
        slots: Addresses of the pointers that the dynamic loader fills in.
    """

    own: int
    slots: tuple[int, ...]


def binding(library: Path, symbol: str) -> Binding | None:
    """Return how a shared library binds a symbol that it defines; None if unknown."""
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as image:
            return _Image(image).binding(symbol.encode())
    except (OSError, ValueError, KeyError, ArithmeticError, struct.error):
        return None


def calls_directly(library: Path, symbols: Iterable[str]) -> frozenset[str]:
    """Return the symbols for which a shared library that defines them has no slot.

    The library's own calls of these symbols, if any, always go to its own definitions: it was
    linked with ``-Bsymbolic-functions``, or optimized at link time, or each call was compiled to
    a direct one. Symbols that it does not define are left out; a file that is not a shared
    library defines none.
    """
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as image:
            return frozenset(_Image(image).without_slot(symbols))
    except (OSError, ValueError, KeyError, ArithmeticError, struct.error):
        return frozenset()


def _has_word(words: bytes, word: bytes) -> bool:
    """Return whether a sequence of 64-bit words contains this word."""
    at = words.find(word)
    while at >= 0 and at % 8:
        at = words.find(word, at + 1)
    return at >= 0


class _Image:
    def __init__(self, image: mmap.mmap) -> None:
        if image[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not a 64-bit little-endian ELF file")
        self._image = image
        headers, entry_size, count = self._read("<Q14xHH", 32)
        self._segments: list[tuple[int, int, int]] = []
        dynamic = None
        for number in range(count):
            kind, offset, address, size = self._read("<I4xQQ8xQ", headers + number * entry_size)
            if kind == _PT_LOAD:
                self._segments.append((address, offset, size))
            elif kind == _PT_DYNAMIC:
                dynamic = range(offset, offset + size, 16)
        if dynamic is None:
            raise ValueError("not dynamic")
        self._tables: dict[int, int] = {}
        for entry in dynamic:
            tag, value = self._read("<QQ", entry)
            self._tables[tag] = value

    def _read(self, form: str, offset: int) -> tuple[int, ...]:
        return struct.unpack_from(form, self._image, offset)

    def _table(self, tag: int) -> int:
        """Return the file offset of a table of the dynamic section."""
        wanted = self._tables[tag]
        for address, offset, size in self._segments:
            if address <= wanted < address + size:
                return wanted - address + offset
        raise ValueError("a table is outside the file")

    def defines(self, symbol: bytes) -> bool:
        return self._find(symbol) is not None

    def defined(self) -> Iterator[bytes]:
        buckets, *_ = self._read("<I", self._table(_DT_GNU_HASH))
        for bucket in range(buckets):
            for _, start, _ in self._chain(bucket):
                yield self._image[start : self._image.find(b"\0", start)]

    def binding(self, symbol: bytes) -> Binding | None:
        index = self._find(symbol)
        if index is None:
            return None
        (own,) = self._read("<8xQ", self._table(_DT_SYMTAB) + _SYMBOL_SIZE * index)
        slots = [
            slot
            for relocations in self._relocations()
            for slot, of in struct.iter_unpack("<QQ8x", relocations)
            if of >> 32 == index
        ]
        return Binding(own, tuple(slots))

    def without_slot(self, symbols: Iterable[str]) -> Iterator[str]:
        indices = {symbol: self._find(symbol.encode()) for symbol in symbols}
        defined = {symbol: index for symbol, index in indices.items() if index is not None}
        if not defined:
            return
        # Every third word contains index and type. They are searched as bytes: TensorFlow's
        # libraries have half a million relocations, and a loop would take a quarter of a second.
        columns = [array("Q", table)[1::3].tobytes() for table in self._relocations()]
        for symbol, index in defined.items():
            words = [struct.pack("<II", kind, index) for kind in _SLOT_RELOCATIONS]
            if not any(_has_word(column, word) for column in columns for word in words):
                yield symbol

    def _relocations(self) -> Iterator[bytes]:
        """Yield the relocation tables, without the entries that have no symbol."""
        for table, size in ((_DT_JMPREL, _DT_PLTRELSZ), (_DT_RELA, _DT_RELASZ)):
            if table in self._tables:
                start = self._table(table)
                end = start + self._tables[size]
                if table == _DT_RELA:  # Entries without a symbol come first.
                    start += _RELOCATION_SIZE * self._tables.get(_DT_RELACOUNT, 0)
                yield self._image[start:end]

    def _find(self, symbol: bytes) -> int | None:
        """Return the index of a symbol that this library defines; None if it does not."""
        wanted = 5381
        for byte in symbol:
            wanted = (wanted * 33 + byte) & 0xFFFFFFFF
        buckets, *_ = self._read("<I", self._table(_DT_GNU_HASH))
        for found, start, index in self._chain(wanted % buckets):
            name = self._image[start : start + len(symbol) + 1]
            if found | 1 == wanted | 1 and name == symbol + b"\0":
                return index
        return None

    def _chain(self, bucket: int) -> Iterator[tuple[int, int, int]]:
        """Yield hash, offset of the name, and index of each symbol in a hash bucket."""
        table = self._table(_DT_GNU_HASH)
        names, symbols = self._table(_DT_STRTAB), self._table(_DT_SYMTAB)
        buckets, first, bloom_words, _ = self._read("<IIII", table)
        bucket_table = table + 16 + 8 * bloom_words
        chains = bucket_table + 4 * buckets
        (index,) = self._read("<I", bucket_table + 4 * bucket)
        while index >= first:
            (found,) = self._read("<I", chains + 4 * (index - first))
            (name,) = self._read("<I", symbols + _SYMBOL_SIZE * index)
            yield found, names + name, index
            if found & 1:
                break
            index += 1
