# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The verbs of an API server on its objects, each request under one lock."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.support.kubernetes import (
    admission,
    applying,
    custom,
    deletion,
    kinds,
    patching,
    pods,
    subresources,
)
from tests.support.kubernetes.authorization import Authorizer, Call
from tests.support.kubernetes.refusals import (
    RefusedError,
    already_exists,
    bad_request,
    conflict,
    expired,
    invalid,
    media_type,
    not_found,
    unprocessable,
)
from tests.support.kubernetes.requests import Answer, Request
from tests.support.kubernetes.resources import Catalogue, Resource
from tests.support.kubernetes.store import Key, Store

Object = dict[str, Any]
_MOST_ADDRESSES = 32 * 256 * 250
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class UnavailableError(ConnectionError):
    """The API server is not there."""


class Api:
    """An API server without its HTTP.

    Attributes:
        calls: All calls so far, refused ones too.
        available: False while the server is down: then nobody gets an answer.
    """

    def __init__(self) -> None:
        self.store = Store()
        self.catalogue = Catalogue()
        self.authorizer = Authorizer(self.store)
        self.calls: list[Call] = []
        self.owners = applying.Owners()
        self.available = True
        self._rests: dict[str, tuple[int, list[Object]]] = {}
        # Clusters of other tests beside this one have addresses of their own.
        self._addresses = secrets.randbelow(_MOST_ADDRESSES)
        for name in _NAMESPACES:
            namespace = self.catalogue.named("namespaces")
            self.serve(Request("create", namespace, body={"metadata": {"name": name}}))

    def authorize(self, request: Request) -> None:
        """Note a call, and check that its user may make it.

        Raises:
            RefusedError: No.
            UnavailableError: The server is down.
        """
        if not self.available:
            raise UnavailableError("the API server is down")
        with self.store.lock:
            self.calls.append(request.call)
            self.authorizer.check(request.user, request.call)

    def serve(self, request: Request) -> Answer:
        """Do what is asked; watches and logs are not for here.

        Raises:
            RefusedError: It is not done.
        """
        verbs: dict[str, Callable[[Request], Answer]] = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": lambda request: deletion.delete(self, request),
            "deletecollection": self._delete_all,
        }
        with self.store.lock:
            return verbs[request.verb](request)

    def compact(self) -> None:
        """Forget all changes and the rests of lists: to ask for these is answered with 410."""
        with self.store.lock:
            self.store.compact()
            self._rests.clear()

    def found(self, request: Request) -> Object:
        """Return the object that a request is about.

        Raises:
            RefusedError: It is not there.
        """
        item = self.store.get(request.key)
        if item is None:
            raise not_found(request.resource, request.name)
        return item

    def _get(self, request: Request) -> Answer:
        item = self.found(request)
        if request.subresource == "scale":
            return Answer(200, custom.scale_of(request.resource, item))
        return Answer(200, present(request.resource, item))

    def _list(self, request: Request) -> Answer:
        token, limit = request.query.get("continue", ""), int(request.query.get("limit") or 0)
        if token:
            if token not in self._rests:
                raise expired(0, self.store.oldest)
            revision, items = self._rests[token]
        else:
            asked = int(request.query.get("resourceVersion") or 0)
            if asked > self.store.revision:
                why = f"Too large resource version: {asked}, current: {self.store.revision}"
                raise RefusedError(504, "Timeout", why, {"retryAfterSeconds": 1})
            selects = request.selects()
            revision = self.store.revision
            items = [item for item in self.store.list(request.resource.id) if selects(item)]
        shown, rest = (items[:limit], items[limit:]) if limit else (items, [])
        metadata: Object = {"resourceVersion": str(revision)}
        if rest:
            metadata["continue"] = secrets.token_urlsafe(12)
            metadata["remainingItemCount"] = len(rest)
            self._rests[metadata["continue"]] = revision, rest
        return Answer(200, _listed(request.resource, shown, metadata))

    def _create(self, request: Request) -> Answer:
        if request.subresource:
            return subresources.create(self, request)
        resource, body = request.resource, request.body
        _check_body(request, body, new=True)
        item, unknown = kinds.create(resource, body, request.namespace)
        key: Key = resource.id, request.namespace, item["metadata"].get("name", "")
        if self.store.get(key) is not None:
            raise already_exists(resource, key[2])
        warnings = _warn(request, unknown)
        if resource.id == kinds.SERVICES:
            self._give_address(item)
        created = self.write(request, key, item, None)
        if resource.id == kinds.CRDS and not _is_dry(request):
            self.catalogue.define(created)
            created = self.store.put(key, {**created, "status": custom.established(created)})
        return Answer(201, present(resource, created), warnings)

    def _update(self, request: Request) -> Answer:
        _check_body(request, request.body, new=False)
        given = request.body.get("metadata", {}).get("resourceVersion")
        if request.resource.custom is not None and request.subresource != "scale" and not given:
            cause = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise unprocessable(request.resource, request.name, [cause])
        return self._change(request, request.body)

    def _patch(self, request: Request) -> Answer:
        if request.content_type == applying.CONTENT_TYPE:
            return self._apply(request)
        accepted = [patching.JSON, patching.MERGE, applying.CONTENT_TYPE]
        if request.resource.custom is None:
            accepted.append(patching.STRATEGIC)
        if request.content_type not in accepted:
            raise media_type(accepted)
        found = self.found(request)
        scale = request.subresource == "scale"
        target = custom.scale_of(request.resource, found) if scale else found
        patched = patching.apply(request.content_type, target, request.body)
        _check_body(request, patched, new=False)
        return self._change(request, patched)

    def _apply(self, request: Request) -> Answer:
        resource, body = request.resource, request.body
        manager = request.query.get("fieldManager", "")
        applying.check(body, manager)
        if request.subresource == "scale":
            raise media_type([patching.JSON, patching.MERGE])
        _check_body(request, body, new=False)
        old = self.store.get(request.key)
        if old is None:
            if request.subresource:
                raise not_found(resource, request.name)
            # Who may not create does not create by applying, either.
            self.authorizer.check(request.user, replace(request.call, verb="create"))
            answer = self._create(replace(request, verb="create"))
        else:
            owned = self.owners.of(old["metadata"]["uid"])
            live = present(resource, old)
            found = applying.conflicts(resource, live, body, owned, manager)
            if found and request.query.get("force") != "true":
                raise applying.refusal(found)
            wanted = applying.merged(resource, live, body, owned, manager)
            answer = self._change(request, wanted)
        if not _is_dry(request):
            owned = self.owners.of(answer.body["metadata"]["uid"])
            mine = applying.fields(resource, body)
            for name, theirs in owned.items():
                if name != manager:
                    for path in [p for p in theirs if p in mine and theirs[p] != mine[p]]:
                        del theirs[path]
            written = applying.fields(resource, answer.body)
            owned[manager] = {path: written.get(path, value) for path, value in mine.items()}
        return answer

    def _change(self, request: Request, body: Object) -> Answer:
        resource, old = request.resource, self.found(request)
        _check_preconditions(request, body, old)
        part = request.subresource
        if part == "scale":
            body, part = custom.scaled(resource, old, body), ""
        if part == "resize":
            new, wrong = pods.resized(body, old)
            if wrong:
                raise unprocessable(resource, request.name, wrong)
            unknown: list[str] = []
            if new["spec"] != old["spec"]:
                generation = old["metadata"]["generation"] + 1
                new["metadata"] = {**old["metadata"], "generation": generation}
        else:
            new, unknown = kinds.update(resource, part, body, old)
        warnings = _warn(request, unknown)
        written = self.write(request, request.key, new, old)
        if resource.id == kinds.CRDS and not part and self.store.get(request.key) == written:
            self.catalogue.define(written)
        if request.subresource == "scale":
            return Answer(200, custom.scale_of(resource, written))
        return Answer(200, present(resource, written), warnings)

    def write(self, request: Request, key: Key, item: Object, old: Object | None) -> Object:
        """Write an object if it is right and admitted; return it as it is then.

        Raises:
            RefusedError: It is not.
        """
        resource = request.resource
        causes = list(kinds.validate(resource, request.subresource, item, old))
        if causes:
            raise unprocessable(resource, key[2], causes)
        admission.admit(self.store, resource, item, old)
        item = present(resource, item)
        if old is not None and _same(item, old):
            return old  # As with etcd, a write that changes nothing is none.
        if _is_dry(request):
            return item
        if old is not None and deletion.is_over(item):
            deletion.removed(self, resource, key)
            return item
        return self.store.put(key, item)

    def _delete_all(self, request: Request) -> Answer:
        selects = request.selects()
        items = [item for item in self.store.list(request.resource.id) if selects(item)]
        for item in items:
            metadata = item["metadata"]
            one = {"namespace": metadata.get("namespace", ""), "name": metadata["name"]}
            deletion.delete(self, Request(**{**vars(request), "verb": "delete", **one}))
        return Answer(200, _listed(request.resource, items, {"resourceVersion": ""}))

    def _give_address(self, service: Object) -> None:
        if service["spec"].get("clusterIP") is None:
            self._addresses += 1
            rest, low = divmod(self._addresses % _MOST_ADDRESSES, 250)
            high, middle = divmod(rest, 256)
            service["spec"]["clusterIP"] = f"127.{96 + high}.{middle}.{low + 1}"
        service["spec"].setdefault("clusterIPs", [service["spec"]["clusterIP"]])


def present(resource: Resource, item: Object) -> Object:
    """Return an object with the kind and version that it is asked for in."""
    return {"apiVersion": resource.api_version, "kind": resource.kind} | {
        name: value for name, value in item.items() if name not in ("apiVersion", "kind")
    }


def _listed(resource: Resource, items: list[Object], metadata: Object) -> Object:
    if resource.custom is not None:
        shown = [present(resource, item) for item in items]
    else:  # Items of these have no kind of their own in a list.
        shown = [{k: v for k, v in i.items() if k not in ("apiVersion", "kind")} for i in items]
    kind = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
    return {**kind, "metadata": metadata, "items": shown}


def _is_dry(request: Request) -> bool:
    return request.query.get("dryRun") == "All"


def _same(new: Object, old: Object) -> bool:
    def bare(item: Object) -> Object:
        metadata = {k: v for k, v in item["metadata"].items() if k != "resourceVersion"}
        return {**item, "metadata": metadata}

    return bare(new) == bare(old)


def _warn(request: Request, unknown: list[str]) -> tuple[str, ...]:
    said = tuple(f'unknown field "{path}"' for path in unknown)
    mode = request.query.get("fieldValidation", "Warn")
    if said and mode == "Strict":
        raise bad_request(f"strict decoding error: {', '.join(said)}")
    return said if mode == "Warn" else ()


def _check_body(request: Request, body: Any, *, new: bool) -> None:
    """Check that a body is the object that the path says."""
    if not isinstance(body, dict) or not isinstance(body.get("metadata", {}), dict):
        raise bad_request("the object provided is unrecognized")
    if request.subresource == "scale":
        return
    resource, metadata = request.resource, body.get("metadata", {})
    kind, version = body.get("kind", resource.kind), body.get("apiVersion", resource.api_version)
    if kind != resource.kind:
        raise bad_request(f'no kind "{kind}" is registered for version "{version}" in scheme')
    if version != resource.api_version:
        why = f"({version}) does not match the expected API version ({resource.api_version})"
        raise bad_request(f"the API version in the data {why}")
    if metadata.get("namespace", request.namespace) != request.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if new and metadata.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    if not new and metadata.get("name", request.name) != request.name:
        name = metadata["name"]
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({request.name})"
        )


def _check_preconditions(request: Request, body: Object, old: Object) -> None:
    given, current = body.get("metadata", {}), old["metadata"]
    if given.get("uid", current["uid"]) != current["uid"]:
        why = f"UID in precondition: {given['uid']}, UID in object meta: {current['uid']}"
        raise conflict(request.resource, request.name, f"Precondition failed: {why}")
    version = given.get("resourceVersion")
    if version and version != current["resourceVersion"]:
        raise conflict(request.resource, request.name)
