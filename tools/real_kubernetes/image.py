# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Images of empty folders; a node's containers mount this machine's programs into them."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

# A container's image: its programs are this machine's, its Python is one with tf_malleable.
NAME: Final = "docker.io/library/tf_malleable-test:1"
# The image of the process that holds a pod's namespaces.
PAUSE: Final = "docker.io/library/tf_malleable-pause:1"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def write_archive(path: Path, layer: bytes, programs: Path) -> None:
    """Write both images as an archive that `ctr images import` reads.

    Args:
        path: Where to.
        layer: Their files, as a tar archive.
        programs: The folder with `tfm` and `python`.
    """
    tfm = {
        "Env": [f"PATH={programs}:{_PATH}"],
        "Entrypoint": [f"{programs}/tfm", "run", "--"],
        "Cmd": ["python"],
        "WorkingDir": "/tmp",
    }
    pause = {"Env": [f"PATH={_PATH}"], "Entrypoint": ["sleep", "infinity"]}
    with tarfile.open(path, "w") as archive:
        _add(archive, "layer.tar", layer)
        manifest = []
        for name, config in ((NAME, tfm), (PAUSE, pause)):
            file = f"{name.rpartition('/')[2].partition(':')[0]}.json"
            _add(archive, file, json.dumps(_described(layer, config)).encode())
            manifest.append({"Config": file, "RepoTags": [name], "Layers": ["layer.tar"]})
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def mounts(volumes: Sequence[str]) -> list[dict[str, Any]]:
    """Return volumes, as "/path:/path:ro", as an OCI runtime's config.json has them."""
    found = []
    for volume in volumes:
        source, destination, rights = volume.split(":")
        found.append(
            {
                "destination": destination,
                "source": source,
                "type": "bind",
                "options": ["rbind", rights],
            }
        )
    return found


def _described(layer: bytes, config: dict[str, Any]) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(layer).hexdigest()}"
    return {
        "architecture": _ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [digest]},
    }


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
