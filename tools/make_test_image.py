#!/usr/bin/env python3
# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Make a Docker image of this machine's own Python environment, without a registry.

The image itself is a few empty folders. All that is in a container of it, TensorFlow
included, is mounted from this machine, read-only; so the image is made at once, and what
runs is what is installed here. CMD becomes malleable: the entry point is `tfm run --`.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

try:
    import docker
    from docker.errors import APIError, DockerException, ImageNotFound
except ModuleNotFoundError:
    raise SystemExit(
        f"make_test_image: {sys.executable} has no package docker; call a Python that has it"
        " and tf_malleable"
    ) from None

TAG = "tf_malleable-test"
# On our images, and says what is in them.
LABEL = "tf_malleable-test-image"
MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")  # Links into /usr, on most machines.
# /root is open: Python may lie below it, and a container's user be another.
EMPTY = {"dev": 0o755, "etc": 0o755, "proc": 0o755, "root": 0o755, "run": 0o755, "sys": 0o755}
EMPTY |= {"tmp": 0o1777, "usr": 0o755, "var": 0o755, "var/tmp": 0o1777}
PREFIXES = "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix, sys.executable]))"


class ImageError(Exception):
    """What is wrong, in one sentence."""


def _prefixes(python: str) -> tuple[Path, ...]:
    """Return where an environment lies: its own folder first, then its base Python's.

    Raises:
        ImageError: It is no Python, or has no tfm.
    """
    try:
        command = [python, "-c", PREFIXES]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        prefix, base, executable = map(Path, json.loads(said))
    except (OSError, ValueError, subprocess.CalledProcessError):
        raise ImageError(f"{python} is no Python that runs") from None
    if not (prefix / "bin" / "tfm").is_file():
        raise ImageError(f"{python} has no tf_malleable: there is no {prefix}/bin/tfm")
    # A base may be known by a link, and the executable be found by another.
    return prefix, base, base.resolve(), executable.resolve().parent.parent


def volumes(python: str = sys.executable, also: Iterable[Path | str] = ()) -> list[str]:
    """Return the mounts that a container needs, as ``"/path:/path:ro"``.

    They are the system's programs, the virtual environment of a Python, what that was
    made from, and other paths of this machine. Docker's SDK takes them as they are, the
    command `docker run` each after a -v.

    Raises:
        ImageError: It is no Python with tf_malleable, or a path cannot be mounted.
    """
    system = (Path("/", name) for name in ("usr", "etc", *MERGED))
    # /bin is a folder of its own on some machines; a link is in the image.
    paths = [path for path in system if path.is_dir() and not path.is_symlink()]
    for path in (*_prefixes(python), *(Path(name).absolute() for name in also)):
        if not path.exists():
            raise ImageError(f"there is no {path} to mount")
        if ":" in str(path):
            raise ImageError(f"{path} cannot be mounted: its name has a colon")
        if not any(path.is_relative_to(mounted) for mounted in paths):
            paths.append(path)
    return [f"{path}:{path}:ro" for path in paths]


def _folders() -> bytes:
    """Return the image's file system as a tar, the same one each time."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name in MERGED:
            entry = tarfile.TarInfo(name)
            if Path("/", name).is_symlink():
                entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(f"/{name}")
            elif Path("/", name).is_dir():
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            else:
                continue
            tar.addfile(entry)
        for name, mode in EMPTY.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
    return content.getvalue()


def make_test_image(
    client: docker.DockerClient, tag: str = TAG, python: str = sys.executable
) -> str:
    """Make the image, unless it is there already; return its tag.

    Raises:
        ImageError: It is no Python with tf_malleable, the tag is none or another
            image's, or the engine refuses.
    """
    programs = _prefixes(python)[0] / "bin"
    path = f"{programs}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    changes = [
        f"ENTRYPOINT {json.dumps([f'{programs}/tfm', 'run', '--'])}",
        'CMD ["python"]',
        "WORKDIR /tmp",
        f"ENV PATH={json.dumps(path)}",
    ]
    folders = _folders()
    digest = hashlib.sha256(folders + "\n".join(changes).encode()).hexdigest()
    try:
        before = _existing(client, tag)
        if before is None or before.labels[LABEL] != digest:
            repository, version = docker.utils.parse_repository_tag(tag)
            client.api.import_image_from_data(
                folders,
                repository=repository,
                tag=version or "latest",
                changes=[*changes, f"LABEL {LABEL}={digest}"],
            )
            if before is not None:
                client.images.remove(before.id)
    except APIError as error:
        raise ImageError(f"Docker refuses {tag}: {error.explanation}") from None
    return tag


def _existing(client: docker.DockerClient, tag: str) -> docker.models.images.Image | None:
    try:
        image = client.images.get(tag)
    except ImageNotFound:
        return None
    if LABEL not in image.labels:
        raise ImageError(f"{tag} is another image's tag; choose one that is free")
    return image


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def main() -> int:
    """Do what the command line says."""
    parser = _Parser(description=__doc__)
    parser.add_argument("--tag", default=TAG, help="[default: %(default)s]")
    parser.add_argument(
        "--also", action="append", default=[], metavar="PATH", help="mount this too"
    )
    parser.add_argument("--json", action="store_true", help="say it in JSON")
    arguments = parser.parse_args()
    try:
        mounts = volumes(also=arguments.also)
        tag = make_test_image(docker.from_env(), arguments.tag)
    except ImageError as error:
        print(f"make_test_image: {error}", file=sys.stderr)
        return 2
    except DockerException:
        print("make_test_image: no Docker engine answers; DOCKER_HOST names one", file=sys.stderr)
        return 1
    options = [word for mount in mounts for word in ("-v", mount)]
    example = ["python", "-c", "import tensorflow; print(tensorflow.__version__)"]
    command = ["docker", "run", "--rm", *options, tag, *example]
    if arguments.json:
        print(json.dumps({"tag": tag, "volumes": mounts, "command": command}))
    else:
        print(tag)
        print(shlex.join(command))
    return 0


if __name__ == "__main__":
    sys.exit(main())
