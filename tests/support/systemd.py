# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A busctl in place of the real one: it makes scopes in the kernel's hierarchy, as systemd would.

It accepts one call, of which it checks signature, names and values, and no other property than
those that systemd 252 was seen to accept. What that refused, it refuses in the same words, as seen
in `tools/in_vm.sh --systemd`: a process that has ended, and a unit that exists. Unlike systemd, it
does not remove a scope that is empty.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

NAME = r"[A-Za-z0-9:_.\\@-]+"
CALL = [
    "call",
    "org.freedesktop.systemd1",
    "/org/freedesktop/systemd1",
    "org.freedesktop.systemd1.Manager",
    "StartTransientUnit",
    "ssa(sv)a(sa(sv))",
]
# Cgroup of the user's own systemd.
USER = Path("user.slice", "user-1000.slice", "user@1000.service")
TYPES = {
    "Description": "s",
    "Slice": "s",
    "PIDs": "au",
    "DelegateControllers": "as",
    "PartOf": "as",
}


def install(folder: Path, root: Path) -> None:
    """Write the program.

    Args:
        folder: Folder of the program, for PATH.
        root: Cgroup that is the root of all that systemd manages.
    """
    program = folder / "busctl"
    program.write_text(
        f'#!/bin/sh\nexec {sys.executable} {Path(__file__)} {root} "$@"\n',
    )
    program.chmod(0o755)


def main(root: Path, *arguments: str) -> None:
    options = [each for each in arguments if each.startswith("--")]
    assert {"--quiet", "--timeout=2"} < {*options}, options
    assert len({"--system", "--user"} & {*options}) == 1, options
    words = [each for each in arguments if not each.startswith("--")]
    assert words[: len(CALL)] == CALL, words
    name, mode, count, *rest = words[len(CALL) :]
    assert mode == "fail"
    properties, rest = values(int(count), rest)
    assert rest == ["0"], rest
    assert re.fullmatch(rf"{NAME}\.scope", name), name
    [parent] = properties["Slice"]
    assert re.fullmatch(rf"{NAME}\.slice", parent), parent
    for pid in properties["PIDs"]:
        if not Path(f"/proc/{pid}").exists():
            refuse(f"Process with ID {pid} does not exist.")
    if "--user" in options:
        root /= USER
    folder = root / slice_folder(parent) / name
    if folder.exists():
        refuse(f"Unit {name} was already loaded or has a fragment file.")
    folder.mkdir()
    for pid in properties["PIDs"]:
        (folder / "cgroup.procs").write_text(pid)


def values(count: int, rest: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the properties by name, and what follows them."""
    found = {}
    for _ in range(count):
        name, kind, *rest = rest
        assert TYPES[name] == kind, (name, kind)
        size = 1
        if kind.startswith("a"):
            size, rest = int(rest[0]), rest[1:]
        found[name], rest = rest[:size], rest[size:]
        assert len(found[name]) == size
    return found, rest


def slice_folder(name: str) -> Path:
    """Return the folder of a slice: a-b.slice is in a.slice."""
    parts = name.removesuffix(".slice").split("-")
    return Path(*("-".join(parts[: end + 1]) + ".slice" for end in range(len(parts))))


def refuse(why: str) -> None:
    sys.stderr.write(f"Call failed: {why}\n")
    sys.exit(1)


if __name__ == "__main__":
    os.umask(0o022)
    main(Path(sys.argv[1]), *sys.argv[2:])
