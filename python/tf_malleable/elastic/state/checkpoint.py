# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Checkpoint: a training's state in a file, for when no process has it in memory any more.

A file is written under another name, and gets its own only once all of it is on the disk. It ends
with the SHA-256 digest of what comes before. Two files are kept, so that there is one if the
newest is damaged. As a training does the same whatever its members, any of them leads to the same
end.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from tf_malleable.elastic.links.errors import MeshError
from tf_malleable.elastic.state import state_messages

_GREETING: Final = b"tf_malleable checkpoint 1\n"
_LENGTH: Final = struct.Struct("!I")
_LONGEST: Final = 1 << 16
_DIGEST: Final = hashlib.sha256().digest_size
_NUMBERS: Final = ("step", "shards", "description", "buffers")
_KEPT: Final = 2
_NAME: Final = re.compile(r"step-(\d{12,})\.checkpoint")
_PARTIAL: Final = ".partial"


@dataclass(frozen=True)
class KeptState:
    """A state read from a file.

    Attributes:
        path: Path of the file.
        step: Step that follows the state.
        description: The training's description of the state.
        buffers: Bytes of the state.
    """

    path: Path
    step: int
    description: bytes
    buffers: Sequence[memoryview]


@dataclass(frozen=True)
class CutUp:
    """Settings on which the bits of a training depend, besides its script.

    Attributes:
        shards: Number of shards of each batch.
        seed: Seed of the generators; None if it was not set.
    """

    shards: int
    seed: int | None


class DamagedError(Exception):
    """A file is incomplete, or not what was written."""


def write(
    folder: Path, step: int, cut_up: CutUp, description: bytes, buffers: Sequence[memoryview]
) -> Path:
    """Save a state; return its file. Of the earlier files, only the newest stays.

    Raises:
        OSError: Saving failed; the earlier files are unchanged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{step:012d}.checkpoint"
    said = {"step": step, "shards": cut_up.shards, "seed": cut_up.seed}
    said |= {"description": len(description), "buffers": len(buffers)}
    head = json.dumps(said).encode()
    partial = folder / f".{path.name}.{secrets.token_hex(4)}{_PARTIAL}"
    try:
        with partial.open("xb", buffering=0) as file:
            digest = hashlib.sha256()
            for each in (
                memoryview(_GREETING + _LENGTH.pack(len(head)) + head),
                *state_messages.pieces(description, buffers),
            ):
                digest.update(each)
                _write_all(file, each)
            _write_all(file, memoryview(digest.digest()))
            os.fsync(file.fileno())
        partial.rename(path)
        _sync(folder)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    with suppress(OSError):
        _tidy(folder)
    return path


def newest(folder: Path, cut_up: CutUp, say: Callable[[str], None]) -> KeptState | None:
    """Return the newest state that can be read; None if there is none.

    A damaged file gets another name, so that it is tried only once.

    Args:
        folder: Folder of the files; it need not exist.
        cut_up: Settings of the training that is to continue.
        say: Called with a sentence for each damaged file.

    Raises:
        MeshError: The folder or a file cannot be read, or belongs to another training.
    """
    try:
        files = _files(folder)
        for place, path in enumerate(files):
            try:
                return _read(path, cut_up)
            except DamagedError as error:
                left = len(files) > place + 1
                then = f"{files[place + 1]} is tried" if left else "no other checkpoint is left"
                say(f"{path} is not used, as {error}: {then}")
                with suppress(OSError):
                    path.rename(path.with_suffix(".damaged"))
    except OSError as error:
        where = error.filename or folder
        raise MeshError(f"cannot read {where}: {error.strerror or error}") from None
    return None


def seed_in(folder: Path) -> int | None:
    """Return the seed of the training whose state is saved here; None if it is unknown."""
    with suppress(OSError):
        for path in _files(folder):
            with suppress(DamagedError), path.open("rb") as file:
                seed = _head(file.read)["seed"]
                return None if seed is None else int(seed)
    return None


def _files(folder: Path) -> list[Path]:
    """Return the checkpoint files, the newest first."""
    try:
        found = [(_NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    numbered = [(int(match[1]), path) for match, path in found if match is not None]
    return [path for _, path in sorted(numbered, reverse=True)]


def _read(path: Path, cut_up: CutUp) -> KeptState:
    size, digest = path.stat().st_size, hashlib.sha256()
    with path.open("rb") as file:

        def take(count: int) -> bytes:
            data = file.read(count)
            digest.update(data)
            return data

        def fill(place: memoryview) -> None:
            if file.readinto(place) != len(place):
                raise DamagedError(f"it ends after {size} bytes")
            digest.update(place)

        said = _head(take)
        _check(path, said, cut_up)
        try:
            description, buffers = state_messages.from_pieces(
                said["description"], said["buffers"], fill, size
            )
        except (ValueError, KeyError):
            raise DamagedError(f"it ends after {size} bytes") from None
        if file.read(_DIGEST + 1) != digest.digest():
            raise DamagedError("its bytes are not those that were written")
    return KeptState(path, said["step"], description, buffers)


def _head(take: Callable[[int], bytes]) -> dict[str, Any]:
    if take(len(_GREETING)) != _GREETING:
        raise DamagedError("it does not begin as a checkpoint of this version")
    try:
        (length,) = _LENGTH.unpack(take(_LENGTH.size))
        said = json.loads(take(min(length, _LONGEST)))
        head = {name: said[name] for name in (*_NUMBERS, "seed")}
        if not all(isinstance(head[name], int) for name in _NUMBERS):
            raise TypeError
        return head
    except (struct.error, ValueError, KeyError, TypeError, RecursionError):
        raise DamagedError("it ends within its first lines") from None


def _check(path: Path, said: dict[str, Any], cut_up: CutUp) -> None:
    if said["shards"] != cut_up.shards:
        raise MeshError(
            f"{path} is of a training that cuts batches into {said['shards']} shards, and this one"
            f" cuts them into {cut_up.shards}: its result would be another one"
        )
    if said["seed"] != cut_up.seed:
        raise MeshError(
            f"{path} is of a training with the seed {said['seed']}, and this one has"
            f" {cut_up.seed}: its result would be another one"
        )


def _write_all(file: IO[bytes], data: memoryview) -> None:
    while len(data):
        data = data[file.write(data) :]


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _tidy(folder: Path) -> None:
    """Remove older files, and partial ones of processes that are gone."""
    partial = [path for path in folder.iterdir() if path.name.endswith(_PARTIAL)]
    for path in (*_files(folder)[_KEPT:], *partial):
        with suppress(OSError):
            path.unlink()
