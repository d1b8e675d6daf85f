# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Access control of the page: a token, the page's own origin, and known host names.

The page keeps the token for its own origin and sends it in a header. There is no cookie: a browser
sends a host's cookies to all of its ports, at each of which another user of the host may listen.
A browser also runs pages of any site. Their requests have no token; they are refused all the same
(Origin and Sec-Fetch-Site are checked), as is the name of another site for this address (Host is).
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Hosts that are always this machine."""

PROTOCOL: Final = "tfm"
"""Subprotocol of the page's WebSocket. A page can set no header for it, so it names two
subprotocols: this one, and the token after a prefix, as Kubernetes' pages do."""

_BEARER = "Bearer "
_BEARER_PROTOCOL = "bearer."
_PUBLIC = "/static/"


@dataclass(frozen=True)
class Visit:
    """The checked parts of a request.

    Attributes:
        method: HTTP method.
        path: Path, without parameters.
        headers: Headers; names are matched as the mapping does it.
    """

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def host(self) -> str:
        """Host named by the request, without a port."""
        named = self.headers.get("Host", "")
        return named.rpartition(":")[0] if _has_port(named) else named

    @property
    def is_public(self) -> bool:
        """Whether the request is for a file of the page, which tells nothing of the jobs."""
        return self.method == "GET" and (self.path == "/" or self.path.startswith(_PUBLIC))

    @property
    def token(self) -> str | None:
        """Token that the request has in a header; None if there is none."""
        said = self.headers.get("Authorization", "")
        if said.startswith(_BEARER):
            return said.removeprefix(_BEARER)
        named = self.headers.get("Sec-WebSocket-Protocol", "").split(",")
        tokens = (each.strip() for each in named)
        return next(
            (
                each.removeprefix(_BEARER_PROTOCOL)
                for each in tokens
                if each.startswith(_BEARER_PROTOCOL)
            ),
            None,
        )

    @property
    def is_entry(self) -> bool:
        """Whether the request follows a link to the page, which any site may offer."""
        return (
            self.method == "GET"
            and self.path == "/"
            and self.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"
            and self.headers.get("Sec-Fetch-Dest", "document") == "document"
        )


@dataclass(frozen=True)
class Access:
    """Access rules of a page.

    Attributes:
        token: Token required in a header; None if every client that can connect has access.
        hosts: Names under which the page may be opened; None for any.
        read_only: True if no client may change anything.
    """

    token: str | None
    hosts: Collection[str] | None = LOOPBACK
    read_only: bool = False

    def stranger(self, visit: Visit) -> str | None:
        """Return why a request is not from the page, in a sentence; None if it is accepted."""
        if self.hosts is not None and visit.host not in self.hosts:
            names = ", ".join(sorted(self.hosts))
            return f"this page is for the hosts {names} only; --host adds one"
        site = visit.headers.get("Sec-Fetch-Site")
        if site not in (None, "same-origin", "none") and not visit.is_entry:
            return "another site has sent this request"
        origin = visit.headers.get("Origin")
        is_ours = origin is None or _place(origin) == visit.headers.get("Host")
        # A proxy may name another host than the browser, which itself reports the same origin.
        if not is_ours and not (self.hosts is None and site == "same-origin"):
            return "another site has sent this request"
        return None

    def forbidden(self, visit: Visit) -> str | None:
        """Return why a change is forbidden; None if the request is allowed or changes nothing."""
        if visit.method in ("GET", "HEAD"):
            return None
        if self.read_only:
            return "this page is read-only: tfm web was started with --read-only"
        # A form of another site cannot send this content type.
        if visit.headers.get("Content-Type", "").partition(";")[0] != "application/json":
            return "a change must be sent as application/json"
        return None

    def admits(self, visit: Visit) -> bool:
        """Return whether a request may be answered: it has the token, or needs none."""
        if self.token is None or visit.is_public:
            return True
        return visit.token is not None and _same(visit.token, self.token)


def _place(origin: str) -> str | None:
    """Return host and port of an origin; None if it is no URL."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _has_port(host: str) -> bool:
    """Return whether a Host header ends with a port; an IPv6 address has colons, too."""
    return ":" in host and not host.endswith("]")


def _same(given: str, secret: str) -> bool:
    # Bytes that are not UTF-8 arrive as surrogates.
    return secrets.compare_digest(given.encode(errors="replace"), secret.encode())
