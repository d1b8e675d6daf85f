#!/usr/bin/env python3
# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Make a Docker image that uses this machine's Python environment, without a registry.

The image consists of a few empty folders. Its containers mount everything else, including
TensorFlow, read-only from this machine. So the image is made at once, and containers run
what is installed here. The entry point is `tfm run --`, so every command is malleable.
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
        f"make_test_image: {sys.executable} does not have the package docker; use a Python that"
        " has both docker and tf_malleable"
    ) from None

TAG = "tf_malleable-test"
# The label of our images; its value is a digest of their contents.
LABEL = "tf_malleable-test-image"
MERGED = ("bin", "lib", "lib32", "lib64", "libx32")  # On most machines links into /usr.
# /root is readable for all: Python may be below it, and a container's user need not be root.
EMPTY = {"dev": 0o755, "etc": 0o755, "proc": 0o755, "root": 0o755, "run": 0o755, "sys": 0o755}
# /sbin is not /usr's, which is mounted: the engine puts its init there.
EMPTY |= {"sbin": 0o755, "tmp": 0o1777, "usr": 0o755, "var": 0o755, "var/tmp": 0o1777}
PREFIXES = "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix, sys.executable]))"


class ImageError(Exception):
    """The image cannot be made. The message is one sentence."""


def _prefixes(python: str) -> tuple[Path, ...]:
    """Return the folders of an environment: its own first, then its base Python's.

    Raises:
        ImageError: It is not a working Python, or has no tfm.
    """
    try:
        command = [python, "-c", PREFIXES]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        prefix, base, executable = map(Path, json.loads(said))
    except (OSError, ValueError, subprocess.CalledProcessError):
        raise ImageError(f"{python} is not a working Python") from None
    if not (prefix / "bin" / "tfm").is_file():
        raise ImageError(f"{python} has no tf_malleable: there is no {prefix}/bin/tfm")
    # The base and the executable may be given by different symbolic links.
    return prefix, base, base.resolve(), executable.resolve().parent.parent


def volumes(python: str = sys.executable, also: Iterable[Path | str] = ()) -> list[str]:
    """Return the mounts that a container needs, as ``"/path:/path:ro"``.

    They are the system's programs, the Python's virtual environment, its base Python, and
    the paths in `also`. Docker's SDK takes them in this form; `docker run` takes each with
    a -v.

    Raises:
        ImageError: This is not a Python with tf_malleable, or a path cannot be mounted.
    """
    system = (Path("/", name) for name in ("usr", "etc", *MERGED))
    # On some machines /bin is a real folder. If it is a link, the image has the link.
    paths = [path for path in system if path.is_dir() and not path.is_symlink()]
    for path in (*_prefixes(python), *(Path(name).absolute() for name in also)):
        if not path.exists():
            raise ImageError(f"there is no {path} to mount")
        if ":" in str(path):
            raise ImageError(f"{path} cannot be mounted: its name has a colon")
        if not any(path.is_relative_to(mounted) for mounted in paths):
            paths.append(path)
    return [f"{path}:{path}:ro" for path in paths]


def empty_folders() -> bytes:
    """Return the image's file system as a tar archive; always the same bytes."""
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
    """Make the image, unless it exists already; return its tag.

    Raises:
        ImageError: This is not a Python with tf_malleable, the tag is invalid or that of
            another image, or the engine refuses.
    """
    programs = _prefixes(python)[0] / "bin"
    path = f"{programs}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    changes = [
        f"ENTRYPOINT {json.dumps([f'{programs}/tfm', 'run', '--'])}",
        'CMD ["python"]',
        "WORKDIR /tmp",
        f"ENV PATH={json.dumps(path)}",
    ]
    folders = empty_folders()
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
        raise ImageError(f"{tag} is the tag of another image; choose an unused one")
    return image


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def main() -> int:
    """Run the command line."""
    parser = _Parser(description=__doc__)
    parser.add_argument("--tag", default=TAG, help="[default: %(default)s]")
    parser.add_argument(
        "--also", action="append", default=[], metavar="PATH", help="mount this too"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    arguments = parser.parse_args()
    try:
        mounts = volumes(also=arguments.also)
        tag = make_test_image(docker.from_env(), arguments.tag)
    except ImageError as error:
        print(f"make_test_image: {error}", file=sys.stderr)
        return 2
    except DockerException:
        print(
            "make_test_image: no Docker engine answers; start one, or set DOCKER_HOST",
            file=sys.stderr,
        )
        return 1
    options = [word for mount in mounts for word in ("-v", mount)]
    example = ["python", "-c", "import tensorflow; print(tensorflow.__version__)"]
    command = ["docker", "run", "--rm", "--init", *options, tag, *example]
    if arguments.json:
        print(json.dumps({"tag": tag, "volumes": mounts, "command": command}))
    else:
        print(tag)
        print(shlex.join(command))
    return 0


if __name__ == "__main__":
    sys.exit(main())
