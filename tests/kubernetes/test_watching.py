# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Lists in pieces and watches, over HTTP."""

from __future__ import annotations

import http.client
import json
from contextlib import contextmanager

import pytest

from tests.support.deadline import DEADLINE
from tests.support.kubernetes.authorization import ADMIN
from tests.support.kubernetes.client import Client
from tests.support.kubernetes.examples import ask, config, pod

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def client(server):
    return Client(server.api)


@pytest.fixture
def token(api):
    return api.authorizer.issue(ADMIN)


class Stream:
    """The events of a watch, one by one."""

    def __init__(self, answer):
        self.answer = answer

    def next(self):
        """Return type and object of the next event; None at the end."""
        line = self.answer.readline()
        return (json.loads(line)["type"], json.loads(line)["object"]) if line else None

    def names(self, number):
        events = [self.next() for _ in range(number)]
        return [(kind, item["metadata"]["name"]) for kind, item in events]


@contextmanager
def watching(server, token, query="", path=MAPS):
    port = int(server.url.rpartition(":")[2])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    connection.request(
        "GET", f"{path}?watch=true&{query}", headers={"Authorization": f"Bearer {token}"}
    )
    try:
        yield Stream(connection.getresponse())
    finally:
        connection.close()


def version(item):
    return item["metadata"]["resourceVersion"]


def test_a_watch_from_a_version_tells_what_came_after_it(server, client, token):
    first = client.create(config("a"))
    client.create(config("b"))
    with watching(server, token, f"resourceVersion={version(first)}") as stream:
        assert stream.names(1) == [("ADDED", "b")]
        client.patch("configmaps", "b", {"data": {"a": "2"}})
        client.create(config("other"), "kube-system")
        client.delete("configmaps", "a")
        assert stream.names(2) == [("MODIFIED", "b"), ("DELETED", "a")]


def test_the_version_of_a_deleted_object_is_its_deletions(server, client, token):
    made = client.create(config("a"))
    client.delete("configmaps", "a")
    with watching(server, token, f"resourceVersion={version(made)}") as stream:
        kind, gone = stream.next()
    assert kind == "DELETED"
    assert int(version(gone)) == int(version(made)) + 1


def test_a_watch_without_a_version_begins_with_what_there_is(server, client, token):
    client.create(config("a"))
    with watching(server, token) as stream:
        assert stream.names(1) == [("ADDED", "a")]
        client.create(config("b"))
        assert stream.names(1) == [("ADDED", "b")]


def test_what_comes_to_match_a_selector_is_added_and_what_ceases_to_is_deleted(
    server, client, token
):
    made = client.create(config("a"))
    query = f"resourceVersion={version(made)}&labelSelector=on%3Dyes"
    with watching(server, token, query) as stream:
        for value in ("no", "yes", "yes", "no"):
            client.patch("configmaps", "a", {"metadata": {"labels": {"on": value}}})
        client.patch("configmaps", "a", {"data": {"a": "2"}})
        client.patch("configmaps", "a", {"metadata": {"labels": {"on": "yes"}}})
        assert stream.names(3) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]


def test_watches_select_by_field(server, client, token):
    client.create(pod("a"))
    path = "/api/v1/pods"
    query = "resourceVersion=0&fieldSelector=spec.nodeName%3Dn"
    with watching(server, token, query, path) as stream:
        client.create(pod("b", nodeName="n"))
        assert stream.names(1) == [("ADDED", "b")]


def test_bookmarks_say_how_far_a_watch_has_come(server, client, token):
    server.bookmark_seconds = 0.02
    made = client.create(config("a"))
    query = f"resourceVersion={version(made)}&allowWatchBookmarks=true"
    with watching(server, token, query) as stream:
        later = client.create(config("b"), "kube-system")
        seen = made
        while int(version(seen)) < int(version(later)):
            kind, seen = stream.next()
            assert (kind, seen["kind"]) == ("BOOKMARK", "ConfigMap")


def test_a_watch_ends_after_its_time_with_a_bookmark(server, client, token):
    client.create(config("a"))
    query = "timeoutSeconds=0.05&allowWatchBookmarks=true"
    with watching(server, token, query) as stream:
        assert stream.names(1) == [("ADDED", "a")]
        assert stream.next()[0] == "BOOKMARK"
        assert stream.next() is None


def test_a_list_can_be_streamed(server, client, token):
    client.create(config("a"))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    with watching(server, token, query) as stream:
        assert stream.names(1) == [("ADDED", "a")]
        kind, mark = stream.next()
    assert kind == "BOOKMARK"
    assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    path = f"{MAPS}?watch=true&sendInitialEvents=true"
    assert ask(server, "GET", path, token=token)[0] == 422


def test_after_a_compaction_old_versions_are_gone(server, client, token, api):
    made = client.create(config("a"))
    client.create(config("b"))
    api.compact()
    for since in (version(made), version(client.get("configmaps", "b"))):
        with watching(server, token, f"resourceVersion={since}") as stream:
            kind, status = stream.next()
            assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
            assert stream.next() is None
    listed = ask(server, "GET", MAPS, token=token)[1]
    with watching(server, token, f"resourceVersion={version(listed)}") as stream:
        client.create(config("c"))
        assert stream.names(1) == [("ADDED", "c")]


def test_a_watch_that_is_behind_when_changes_are_compacted_is_told(server, client, token, api):
    made = client.create(config("a"))
    with watching(server, token, f"resourceVersion={version(made)}") as stream:
        with api.store.lock:
            client.create(config("b"))
            api.compact()
        client.create(config("c"))
        assert stream.next()[1]["code"] == 410


def test_watches_can_be_cut(server, client, token):
    with watching(server, token) as stream:
        client.create(config("a"))
        assert stream.names(1) == [("ADDED", "a")]
        server.cut_watches()
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            stream.answer.read()


def test_lists_in_pieces_are_of_one_version(server, client, token, api):
    for name in "abcde":
        client.create(config(name))
    _, first, _ = ask(server, "GET", f"{MAPS}?limit=2", token=token)
    client.create(config("aa"))
    assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 3
    more = f"{MAPS}?limit=3&continue={first['metadata']['continue']}"
    _, second, _ = ask(server, "GET", more, token=token)
    assert [item["metadata"]["name"] for item in second["items"]] == ["c", "d", "e"]
    assert second["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}
    api.compact()
    assert ask(server, "GET", more, token=token)[0] == 410


def test_items_of_a_list_have_no_kind_of_their_own(server, client, token):
    client.create(config("a"))
    _, listed, _ = ask(server, "GET", MAPS, token=token)
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert "kind" not in listed["items"][0]


def test_a_version_that_is_not_there_yet(server, token):
    status, body, _ = ask(server, "GET", f"{MAPS}?resourceVersion=999999", token=token)
    assert (status, body["reason"]) == (504, "Timeout")
