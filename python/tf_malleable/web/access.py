# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Who may use the page: whoever has its token, from the page itself, under a name we know.

A browser runs pages of anybody's and sends our cookie for us. So a token alone is not enough:
another site could send requests in the user's name (so Origin and Sec-Fetch-Site are checked), or
point its own name at our address (so Host is).
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""The hosts that nobody else can be."""

_BEARER = "Bearer "


@dataclass(frozen=True)
class Visit:
    """What is checked of a request.

    Attributes:
        method: Its HTTP method.
        path: Its path, without parameters.
        headers: Its headers; names are matched as the mapping does it.
        cookies: Its cookies.
        token: The parameter `token`; None if there is none.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    cookies: Mapping[str, str]
    token: str | None = None

    @property
    def host(self) -> str:
        """The host it names, without a port."""
        named = self.headers.get("Host", "")
        return named.rpartition(":")[0] if _has_port(named) else named

    @property
    def is_entry(self) -> bool:
        """Whether a person follows a link to the page, which any site may offer."""
        return (
            self.method == "GET"
            and self.path == "/"
            and self.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"
            and self.headers.get("Sec-Fetch-Dest", "document") == "document"
        )


@dataclass(frozen=True)
class Access:
    """Who may do what.

    Attributes:
        token: Must be in the address that is opened first; None if whoever can connect may.
        hosts: Names under which the page may be opened; None for any.
        read_only: Nobody may change anything.
        cookie: The name of the cookie.
        session: Its value, which only we know.
    """

    token: str | None
    hosts: Collection[str] | None = LOOPBACK
    read_only: bool = False
    cookie: str = "tfm-web"
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def stranger(self, visit: Visit) -> str | None:
        """Return why a request is not from the page, in a sentence; None if it may be."""
        if self.hosts is not None and visit.host not in self.hosts:
            names = ", ".join(sorted(self.hosts))
            return f"this page is for the hosts {names} only; --host adds one"
        site = visit.headers.get("Sec-Fetch-Site")
        if site not in (None, "same-origin", "none") and not visit.is_entry:
            return "another site has sent this request"
        origin = visit.headers.get("Origin")
        is_ours = origin is None or urlsplit(origin).netloc == visit.headers.get("Host")
        # A proxy may name another host than the browser, which says itself that it is the same.
        if not is_ours and not (self.hosts is None and site == "same-origin"):
            return "another site has sent this request"
        return None

    def forbidden(self, visit: Visit) -> str | None:
        """Return why a request would change what it may not; None if it may or does not."""
        if visit.method in ("GET", "HEAD"):
            return None
        if self.read_only:
            return "this page is read-only: tfm web was started with --read-only"
        # What a form of another site cannot send.
        if visit.headers.get("Content-Type", "").partition(";")[0] != "application/json":
            return "a change must be sent as application/json"
        return None

    def opens(self, visit: Visit) -> bool:
        """Return whether a request has the token in its address."""
        return self.token is not None and visit.token is not None and _same(visit.token, self.token)

    def knows(self, visit: Visit) -> bool:
        """Return whether a request is from somebody who had the token."""
        if self.token is None or _same(visit.cookies.get(self.cookie, ""), self.session):
            return True
        said = visit.headers.get("Authorization", "")
        return said.startswith(_BEARER) and _same(said.removeprefix(_BEARER), self.token)


def _has_port(host: str) -> bool:
    """Return whether a Host header ends with a port; an IPv6 address has colons, too."""
    return ":" in host and not host.endswith("]")


def _same(given: str, secret: str) -> bool:
    return secrets.compare_digest(given.encode(), secret.encode())
