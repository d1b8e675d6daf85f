# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The restrictions of the shipped tier's systemd unit, without systemd: mounts and capabilities."""

from __future__ import annotations

import configparser
from collections.abc import Iterable, Sequence

from tests.support import ROOT

UNIT = ROOT / "deploy" / "tier" / "tf_malleable-tier.service"
# What is about devices, clocks, the kernel and system calls changes nothing that these tests do.
_LEFT_OUT = {
    "LockPersonality", "PrivateDevices", "ProtectClock", "ProtectControlGroups", "ProtectHostname",
    "ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "RestrictAddressFamilies",
    "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID", "SystemCallArchitectures",
    "SystemCallFilter",
}  # fmt: skip
_DONE = {
    "CapabilityBoundingSet": None,
    "NoNewPrivileges": "yes",
    "PrivateTmp": "yes",
    "ProtectHome": "read-only",
    "ProtectSystem": "strict",
}
_SANDBOXING = (
    "Bind", "Capability", "Inaccessible", "Lock", "NoNew", "Private", "Protect", "Read", "Restrict",
    "SystemCall", "Temporary",
)  # fmt: skip


def sandboxed(command: Iterable[str], writable: Sequence[str]) -> list[str]:
    """Return the command that runs another one as the unit has it; root must run it.

    Args:
        command: The other command.
        writable: Folders that the unit's RuntimeDirectory and CacheDirectory are.

    Raises:
        ValueError: The unit has a restriction that is not known here.
    """
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    service = parser["Service"]
    for name, value in service.items():
        if name in _LEFT_OUT or not name.startswith(_SANDBOXING):
            continue
        if name not in _DONE or _DONE[name] not in (None, value):
            raise ValueError(f"{UNIT.name} has {name}={value}, which the tests cannot imitate")
    kept = [each.removeprefix("CAP_").lower() for each in service["CapabilityBoundingSet"].split()]
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
