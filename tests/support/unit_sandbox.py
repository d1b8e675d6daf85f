# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The restrictions of the shipped systemd units, without systemd: mounts and capabilities."""

from __future__ import annotations

import configparser
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.support import ROOT

CONTROLLER = ROOT / "deploy" / "tf_malleable.service"
TIER = ROOT / "deploy" / "tier" / "tf_malleable-tier.service"
# What is about devices, clocks, the kernel and system calls changes nothing that these tests do.
_LEFT_OUT = {
    "LockPersonality", "PrivateDevices", "ProtectClock", "ProtectControlGroups", "ProtectHostname",
    "ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "RestrictAddressFamilies",
    "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID", "SystemCallArchitectures",
    "SystemCallFilter",
    # /sys is not made read-only here.
    "ReadWritePaths",
}  # fmt: skip
_DONE = {
    "CapabilityBoundingSet": None,
    "NoNewPrivileges": "yes",
    "PrivateMounts": "yes",
    "PrivateTmp": "yes",
    "ProtectHome": "read-only",
    "ProtectSystem": "strict",
}
_SANDBOXING = (
    "Bind", "Capability", "Inaccessible", "Lock", "NoNew", "Private", "Protect", "Read", "Restrict",
    "SystemCall", "Temporary",
)  # fmt: skip


def kept_capabilities(unit: Path) -> list[str]:
    """Return the capabilities of a unit, as CAP_KILL."""
    return _service(unit)["CapabilityBoundingSet"].split()


def sandboxed(command: Iterable[str], writable: Sequence[str], unit: Path = TIER) -> list[str]:
    """Return the command that runs another one as the unit has it; root must run it.

    Args:
        command: The other command.
        writable: Folders that the unit's RuntimeDirectory, StateDirectory and CacheDirectory are.
        unit: The unit.

    Raises:
        ValueError: The unit has a restriction that is not known here.
    """
    for name, value in _service(unit).items():
        if name in _LEFT_OUT or not name.startswith(_SANDBOXING):
            continue
        if name not in _DONE or _DONE[name] not in (None, value):
            raise ValueError(f"{unit.name} has {name}={value}, which the tests cannot imitate")
    kept = [each.removeprefix("CAP_").lower() for each in kept_capabilities(unit)]
    # Mounts of its own for what it may write; all else becomes read-only.
    script = "\n".join(
        [
            *(f"mount --bind '{each}' '{each}'" for each in writable),
            "for each in $(findmnt -rno TARGET | grep -vE '^/(dev|proc|sys)(/|$)'); do",
            f"  case $each in {'|'.join(writable)}) continue ;; esac",
            '  mount -o remount,bind,ro "$each" 2>/dev/null || true',
            "done",
            "mount -t tmpfs -o mode=1777 tmpfs /tmp",
            "mount -t tmpfs -o mode=1777 tmpfs /var/tmp",
            'exec "$@"',
        ]
    )
    return [
        "unshare", "--mount", "--propagation", "slave", "--", "sh", "-euc", script, "sh",
        "setpriv", "--no-new-privs", "--inh-caps=-all",
        f"--bounding-set=-all,{','.join(f'+{each}' for each in kept)}", "--",
        *command,
    ]  # fmt: skip


def _service(unit: Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit)
    return parser["Service"]
