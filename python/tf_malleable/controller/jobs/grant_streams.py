# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Open grant streams of a job."""

from __future__ import annotations

import asyncio


class Streams:
    """One event per open stream, set when there is a new line."""

    def __init__(self) -> None:
        self._events: set[asyncio.Event] = set()

    def open(self) -> asyncio.Event:
        """Add a stream; return an event that is set when there is a new line, for close()."""
        news = asyncio.Event()
        self._events.add(news)
        return news

    def close(self, news: asyncio.Event) -> None:
        """Stop waking a stream."""
        self._events.discard(news)

    def wake(self) -> None:
        """Make every open stream check for a new line."""
        for news in self._events:
            news.set()
