# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Images for nodes without a registry: one of empty folders, one of a program that waits."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import struct
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

# A container's image: its programs are this machine's, its Python is one with tf_malleable.
NAME: Final = "docker.io/library/tf_malleable-test:1"
# The image of the process that holds a pod's namespaces.
PAUSE: Final = "docker.io/library/tf_malleable-pause:1"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Of each machine: its name among images, its number in ELF, and instructions that wait for ever.
_MACHINES = {
    # pause(), again and again.
    "x86_64": ("amd64", 62, "b822000000 0f05 ebf7"),
    # ppoll(NULL, 0, NULL, NULL), again and again; there is no pause().
    "aarch64": (
        "arm64",
        183,
        "000080d2 010080d2 020080d2 030080d2 280980d2 010000d4 faffff17",
    ),
}


def write_archive(path: Path, layer: bytes, programs: Path) -> None:
    """Write both images as an archive that `ctr images import` reads.

    Args:
        path: Where to.
        layer: The files of the first, as a tar archive.
        programs: The folder with `tfm` and `python`.
    """
    tfm = {
        "Env": [f"PATH={programs}:{_PATH}"],
        "Entrypoint": [f"{programs}/tfm", "run", "--"],
        "Cmd": ["python"],
        "WorkingDir": "/tmp",
    }
    with tarfile.open(path, "w") as archive:
        manifest = [
            _add_image(archive, NAME, layer, tfm),
            _add_image(archive, PAUSE, _pause_layer(), {"Entrypoint": ["/pause"]}),
        ]
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def mounts(volumes: Sequence[str]) -> list[dict[str, Any]]:
    """Return volumes, as "/path:/path:ro", as an OCI runtime's config.json has them."""
    found = []
    for volume in volumes:
        source, destination, rights = volume.split(":")
        options = ["rbind", rights]
        found.append(
            {"destination": destination, "source": source, "type": "bind", "options": options}
        )
    return found


def _add_image(
    archive: tarfile.TarFile, name: str, layer: bytes, config: dict[str, Any]
) -> dict[str, Any]:
    """Add an image; return what the archive's manifest says of it."""
    digest = hashlib.sha256(layer).hexdigest()
    described = {
        "architecture": _MACHINES[platform.machine()][0],
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    _add(archive, f"{digest}.tar", layer)
    _add(archive, f"{digest}.json", json.dumps(described).encode())
    return {"Config": f"{digest}.json", "RepoTags": [name], "Layers": [f"{digest}.tar"]}


def _pause_layer() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        _add(tar, "pause", _pause_program(), 0o755)
    return content.getvalue()


def _pause_program() -> bytes:
    """Return an ELF program, with one segment, that waits until it is killed."""
    _, machine, words = _MACHINES[platform.machine()]
    code = bytes.fromhex(words)
    header, segment, base = 64, 56, 0x400000
    begin, size = header + segment, header + segment + len(code)
    # 64 bits, little-endian, version 1; an executable file; the table of segments follows.
    elf = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\2\1\1",
        *(2, machine, 1, base + begin, header, 0, 0),
        *(header, segment, 1, 0, 0, 0),
    )
    # To load, readable and executable, all of the file.
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x10000)
    return elf + load + code


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
