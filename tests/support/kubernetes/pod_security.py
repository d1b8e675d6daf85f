# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Pod security standards: what of a pod a namespace that enforces one does not admit.

Seen on Kubernetes 1.36.2: workers whose template says nothing of users are refused by the
restricted standard, again and again.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
ENFORCE = "pod-security.kubernetes.io/enforce"


def violations(pod: Object, level: str) -> list[str]:
    """Return what of a pod violates a standard: privileged, baseline or restricted."""
    if level == "privileged":
        return []
    spec, found = pod["spec"], []
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            found.append(f"host namespaces ({name}=true)")
    for container in spec["containers"]:
        if container.get("securityContext", {}).get("privileged"):
            found.append(f'privileged (container "{container["name"]}" must not set privileged)')
    return found + (_restricted(spec) if level == "restricted" else [])


def _restricted(spec: Object) -> list[str]:
    of_pod, found = spec.get("securityContext", {}), []
    for container in spec["containers"]:
        own, name = container.get("securityContext", {}), container["name"]
        where = f'container "{name}" must set securityContext'
        if own.get("allowPrivilegeEscalation") is not False:
            found.append(
                f"allowPrivilegeEscalation != false ({where}.allowPrivilegeEscalation=false)"
            )
        if "ALL" not in own.get("capabilities", {}).get("drop", ()):
            found.append(f'unrestricted capabilities ({where}.capabilities.drop=["ALL"])')
        if not own.get("runAsNonRoot", of_pod.get("runAsNonRoot")):
            found.append(f"runAsNonRoot != true (pod or {where}.runAsNonRoot=true)")
        profile = own.get("seccompProfile", of_pod.get("seccompProfile", {}))
        if profile.get("type") not in ("RuntimeDefault", "Localhost"):
            found.append(
                f'seccompProfile (pod or {where}.seccompProfile.type to "RuntimeDefault" or'
                ' "Localhost")'
            )
    return found
