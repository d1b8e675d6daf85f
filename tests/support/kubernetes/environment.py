# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The command and the environment variables of a container, as its pod's spec says them."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tests.support.kubernetes import quantities
from tests.support.kubernetes.client import Client

Object = dict[str, Any]
_REFERENCE = re.compile(r"\$(\$)?\((\w+)\)")
_KEYED = re.compile(r"^metadata\.(labels|annotations)\['(.+)'\]$")
_FIELDS = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
    "metadata.uid": ("metadata", "uid"),
    "spec.nodeName": ("spec", "nodeName"),
    "spec.serviceAccountName": ("spec", "serviceAccountName"),
    "status.podIP": ("status", "podIP"),
    "status.hostIP": ("status", "hostIP"),
}


class Images(dict[str, Mapping[str, str]]):
    """The environments of images by their names, and the names of those that cannot be pulled.

    An image that is not here can be pulled, and sets nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.missing: set[str] = set()


class ConfigError(Exception):
    """A container cannot be started as its pod says."""


def check_volumes(pod: Object, container: Object) -> None:
    """Check that nothing is to be mounted that has to be: nodes here mount nothing.

    Raises:
        ConfigError: A mount is neither the host's own folder at its own place nor scratch space.
    """
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
    for mount in container.get("volumeMounts", ()):
        path, volume = mount["mountPath"], volumes.get(mount["name"], {})
        own = volume.get("hostPath", {}).get("path") == path
        scratch = "emptyDir" in volume and path in ("/tmp", "/dev/shm")
        if not own and not scratch:
            raise ConfigError(
                f"nodes of a fake cluster cannot mount {mount['name']} at {path}: only a hostPath "
                "at its own path, and an emptyDir at /tmp or /dev/shm"
            )


def command(container: Object, variables: Mapping[str, str]) -> list[str]:
    """Return a container's command and arguments.

    Raises:
        ConfigError: It has none: images here have none of their own.
    """
    if not container.get("command"):
        raise ConfigError("no command specified")
    parts = [*container["command"], *container.get("args", ())]
    return [_expand(part, variables) for part in parts]


def variables(
    pod: Object, container: Object, image: Mapping[str, str], client: Client
) -> dict[str, str]:
    """Return the environment of a container.

    Args:
        pod: Its pod, whose status has the addresses.
        container: The container.
        image: What its image sets.
        client: For configmaps, secrets and services.

    Raises:
        ConfigError: A variable refers to what is not there.
    """
    found = {"HOSTNAME": pod["metadata"]["name"], **image}
    if pod["spec"].get("enableServiceLinks", True):
        found |= _links(client.list("services", pod["metadata"]["namespace"]))
    for variable in container.get("env", ()):
        value = _expand(variable.get("value", ""), found)
        if "valueFrom" in variable:
            referred = _resolve(pod, container, variable["valueFrom"], client)
            if referred is None:
                continue
            value = referred
        found[variable["name"]] = value
    return found


def _expand(text: str, found: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return match[0][1:] if match[1] else found.get(match[2], match[0])

    return _REFERENCE.sub(value, text)


def _links(services: list[Object]) -> dict[str, str]:
    links = {}
    for service in services:
        address = service["spec"].get("clusterIP", "None")
        if address != "None":
            name = service["metadata"]["name"].upper().replace("-", "_")
            links[f"{name}_SERVICE_HOST"] = address
            links[f"{name}_SERVICE_PORT"] = str(service["spec"]["ports"][0]["port"])
    return links


def _resolve(pod: Object, container: Object, source: Object, client: Client) -> str | None:
    if "fieldRef" in source:
        return _field(pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        kind, name = source["resourceFieldRef"]["resource"].split(".", 1)
        quantity = container["resources"].get(kind, {}).get(name, 0)
        divisor = quantities.parse(source["resourceFieldRef"].get("divisor") or 1) or Fraction(1)
        return str(math.ceil(quantities.parse(quantity) / divisor))
    for kind, plural in (("secretKeyRef", "secrets"), ("configMapKeyRef", "configmaps")):
        if kind in source:
            return _key(pod, source[kind], plural, client)
    raise ConfigError(f"a variable cannot be from {', '.join(source)} in a fake cluster")


def _field(pod: Object, path: str) -> str:
    if match := _KEYED.match(path):
        return str(pod["metadata"].get(match[1], {}).get(match[2], ""))
    if path not in _FIELDS:
        raise ConfigError(f"unsupported fieldPath: {path}")
    first, second = _FIELDS[path]
    return str(pod[first].get(second, ""))


def _key(pod: Object, source: Object, plural: str, client: Client) -> str | None:
    item = client.find(plural, source["name"], pod["metadata"]["namespace"])
    data = (item or {}).get("data", {})
    if source["key"] in data:
        value: str = data[source["key"]]
        return base64.b64decode(value).decode() if plural == "secrets" else value
    if source.get("optional"):
        return None
    if item is None:
        raise ConfigError(f'{plural[:-1]} "{source["name"]}" not found')
    raise ConfigError(f"couldn't find key {source['key']} in {plural[:-1]} {source['name']}")
