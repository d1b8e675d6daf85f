#!/usr/bin/env python3
# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Compare the page's libraries with what the npm registry has, or fetch other versions.

They are in the package unchanged, so that the page needs neither a build nor the network.
vendor.json beside them says what they are: version, licence, and the hash of each file. Without
arguments the registry's packages are fetched and compared; --update writes files and hashes after
a version in vendor.json was changed. --offline compares the files with the hashes only.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FOLDERS = (ROOT / "python/tf_malleable/web/static/vendor", ROOT / "tests/web/vendor")
LIST = "vendor.json"


def sha256(data: bytes) -> str:
    """Return a hash as in a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(data).digest()).decode()


def fetch(name: str, version: str) -> Path:
    """Return the folder of an npm package, which npm has checked against its registry's hash."""
    place = Path(tempfile.mkdtemp(prefix="vendor-"))
    done = subprocess.run(
        ["npm", "pack", "--silent", f"{name}@{version}"],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"vendor: cannot fetch {name} {version}: {done.stderr.strip()}")
    (archive,) = place.glob("*.tgz")
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
    return place / "package"


def differences(folder: Path, packages: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the files of a folder, in a sentence each."""
    wanted = {
        name: said["hash"] for each in packages.values() for name, said in each["files"].items()
    }
    found = {path.name for path in folder.iterdir()} - {LIST}
    yield from (f"{folder / name} is not in {LIST}" for name in sorted(found - wanted.keys()))
    for name, wanted_hash in wanted.items():
        if name not in found:
            yield f"{folder / name} is missing"
        elif sha256((folder / name).read_bytes()) != wanted_hash:
            yield f"{folder / name} is not what {LIST} says"


def compare(folder: Path, name: str, package: Mapping[str, Any], *, update: bool) -> Iterator[str]:
    """Yield which files differ from the registry's; or take the registry's."""
    source = fetch(name, package["version"])
    for target, said in package["files"].items():
        data = (source / said["from"]).read_bytes()
        if update:
            (folder / target).write_bytes(data)
            said["hash"] = sha256(data)
        elif data != (folder / target).read_bytes():
            yield f"{folder / target} differs from {said['from']} of {name} {package['version']}"


def main() -> int:
    """Run it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--update", action="store_true", help="write the files and their hashes")
    how.add_argument("--offline", action="store_true", help="compare with the hashes only")
    arguments = parser.parse_args()
    complaints: list[str] = []
    for folder in FOLDERS:
        packages = json.loads((folder / LIST).read_text())
        if not arguments.offline:
            for name, package in packages.items():
                complaints += compare(folder, name, package, update=arguments.update)
            if arguments.update:
                (folder / LIST).write_text(json.dumps(packages, indent=2) + "\n")
        complaints += differences(folder, packages)
    print(*complaints, sep="\n", end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
