# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Membership: the nodes of the tier, from a fixed list or the addresses of a DNS name."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from tf_malleable.tier.settings import NodeAddress

RESOLVE_SECONDS: Final = 10.0


class Membership:
    """The nodes of the tier.

    Attributes:
        node: Address of this node, its name among the nodes; empty without other nodes.
    """

    def __init__(
        self,
        node: str,
        peers: Sequence[NodeAddress],
        dns: NodeAddress | None,
        allows: Callable[[str], bool],
    ) -> None:
        """Create a membership.

        Args:
            node: Address of this node.
            peers: Fixed list of nodes.
            dns: DNS name, with the port of all nodes; None for the fixed list alone.
            allows: Function that returns whether a node may be asked at present.
        """
        self.node, self._dns, self._allows = node, dns, allows
        self._others = _without(node, (str(peer) for peer in peers))

    @property
    def others(self) -> tuple[str, ...]:
        """All other nodes that are known."""
        return self._others

    def live(self) -> tuple[str, ...]:
        """Return the other nodes that may be asked, and this one."""
        return (*(other for other in self._others if self._allows(other)), self.node)

    async def follow(self) -> None:
        """Resolve the DNS name periodically, until cancelled; return at once without one."""
        while self._dns is not None:
            # If DNS does not answer, the last list stays in use.
            with suppress(OSError):
                self._others = _without(self.node, await _resolve(self._dns))
            await asyncio.sleep(RESOLVE_SECONDS)


def _without(node: str, nodes: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({each for each in nodes if each != node}))


async def _resolve(name: NodeAddress) -> list[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(name.host, name.port, type=socket.SOCK_STREAM)
    return [str(NodeAddress(str(address[0]), name.port)) for *_, address in found]
