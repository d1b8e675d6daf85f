# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Who asks, and what of it the roles in the store allow; and which calls were made."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.kubernetes.refusals import RefusedError, unauthorized
from tests.support.kubernetes.store import Store

Object = dict[str, Any]
_GROUP = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class User:
    """A user, and the groups that this is in."""

    name: str
    groups: tuple[str, ...] = ("system:authenticated",)


ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


def system(name: str) -> User:
    """Return a part of the cluster, which may do everything."""
    return User(f"system:{name}", ("system:masters",))


def account(namespace: str, name: str) -> User:
    """Return the user that a service account is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return User(f"system:serviceaccount:{namespace}:{name}", (*groups, "system:authenticated"))


@dataclass(frozen=True)
class Call:
    """A call, in the terms of a role's rules. Core's group is "", as is the name of no object."""

    user: str
    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True)
class Right:
    """One verb on one resource, as a rule of a role grants it."""

    verb: str
    group: str
    resource: str
    names: tuple[str, ...] = ()

    def covers(self, call: Call) -> bool:
        """Say whether a call needs no more than this."""
        return (
            self.verb in ("*", call.verb)
            and self.group in ("*", call.group)
            and _names(self.resource, call.resource)
            and (not self.names or call.name in self.names)
        )


def _names(pattern: str, resource: str) -> bool:
    subresource = resource.partition("/")[2]
    return pattern in ("*", resource) or (bool(subresource) and pattern == f"*/{subresource}")


def rights(rules: Iterable[Object]) -> Iterator[Right]:
    """Return what rules grant, one by one."""
    for rule in rules:
        names = tuple(rule.get("resourceNames", ()))
        for group in rule.get("apiGroups", ()):
            for resource in rule.get("resources", ()):
                for verb in rule.get("verbs", ()):
                    yield Right(verb, group, resource, names)


def unused(rules: Iterable[Object], calls: Iterable[Call]) -> list[Right]:
    """Return the rights that rules grant and that none of the calls needed."""
    made = list(calls)
    return [right for right in rights(rules) if not any(right.covers(call) for call in made)]


class Authorizer:
    """Tokens, and the roles of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._users: dict[str, User] = {}

    def issue(self, user: User) -> str:
        """Return a new token of a user."""
        token = secrets.token_urlsafe(16)
        self._users[token] = user
        return token

    def revoke(self, token: str) -> None:
        """Know a token no longer."""
        del self._users[token]

    def user(self, header: str | None) -> User:
        """Return who sent an Authorization header.

        Raises:
            RefusedError: Its token is not known.
        """
        if header is None:
            return ANONYMOUS
        kind, _, token = header.partition(" ")
        if kind.lower() != "bearer" or token not in self._users:
            raise unauthorized()
        return self._users[token]

    def check(self, user: User, call: Call) -> None:
        """Check that a user may make a call.

        Raises:
            RefusedError: No role of this user allows it.
        """
        if "system:masters" in user.groups:
            return
        rules = self.rules(user, call.namespace)
        if any(right.covers(call) for right in rights(rules)):
            return
        plain = call.resource.partition("/")[0]
        qualified = f"{plain}.{call.group}" if call.group else plain
        subject = f'{qualified} "{call.name}"' if call.name else qualified
        where = f'in the namespace "{call.namespace}"' if call.namespace else "at the cluster scope"
        message = (
            f'{subject} is forbidden: User "{user.name}" cannot {call.verb} resource '
            f'"{call.resource}" in API group "{call.group}" {where}'
        )
        details = {"name": call.name, "group": call.group, "kind": plain}
        raise RefusedError(403, "Forbidden", message, {k: v for k, v in details.items() if v})

    def rules(self, user: User, namespace: str = "") -> list[Object]:
        """Return the rules that hold for a user in a namespace, or in the whole cluster."""
        found: list[Object] = []
        for binding in self._store.list((_GROUP, "clusterrolebindings")):
            if any(_is(subject, user, "") for subject in binding.get("subjects", ())):
                found += self._role(binding["roleRef"], "")
        if namespace:
            for binding in self._store.list((_GROUP, "rolebindings"), namespace):
                if any(_is(one, user, namespace) for one in binding.get("subjects", ())):
                    found += self._role(binding["roleRef"], namespace)
        return found

    def _role(self, reference: Object, namespace: str) -> list[Object]:
        own = reference["kind"] == "Role"
        key = (_GROUP, "roles" if own else "clusterroles")
        role = self._store.get((key, namespace if own else "", reference["name"]))
        return list((role or {}).get("rules") or ())


def _is(subject: Object, user: User, namespace: str) -> bool:
    kind, name = subject["kind"], subject["name"]
    if kind == "ServiceAccount":
        return user.name == account(subject.get("namespace", namespace), name).name
    return name in user.groups if kind == "Group" else name == user.name
