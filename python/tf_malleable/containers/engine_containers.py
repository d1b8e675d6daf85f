# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Containers of one engine, as required by the controller's ports.

The controller's loop never waits for the engine: calls are made in threads, and another
thread follows the engine's events. The engine reports all containers and changes, whatever
client made them; after an interruption everything is read anew.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar
from weakref import WeakSet

from tf_malleable.api.schema.messages import ContainerInfo
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.containers import engine, labels
from tf_malleable.containers.driver import Driver
from tf_malleable.containers.engine import (
    Engine,
    EngineGoneError,
    EngineRefusedError,
    EventStream,
    NoSuchContainerError,
)
from tf_malleable.controller.ports import Container, ContainerObserver, Found
from tf_malleable.model.units import quoted

# Engines carry out several updates in parallel.
_THREADS: Final = 8
_RETRY_SECONDS: Final = 0.5
_FIRST_LOOK_SECONDS: Final = 2.0
_CLOSING_SECONDS: Final = 3.0
# Not "create": the client that creates a container also reports it to the controller, or starts
# it. "remove" is Podman's "destroy".
_WATCHED_EVENTS: Final = frozenset({"start", "die", "destroy", "remove", "pause", "unpause", "oom"})

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class EngineContainers:
    """The containers of an engine that are jobs of one controller. One asyncio loop."""

    def __init__(self, socket: str, engine: Engine | None = None) -> None:
        """Create the object; the engine is not contacted yet.

        Args:
            socket: The controller's socket, which its containers name in a label.
            engine: Engine; by default the one at DOCKER_HOST, or at the default address.
        """
        self._socket = socket
        self._engine = engine or Engine()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="tfm-engine")
        self._drivers: WeakSet[Driver] = WeakSet()
        self._observer: ContainerObserver | None = None
        self._event_thread: threading.Thread | None = None
        self._events: EventStream | None = None
        self._over = threading.Event()
        self._has_looked = asyncio.Event()

    async def start(self, observer: ContainerObserver) -> None:
        """Start reporting to an observer, first all existing containers if an engine answers."""
        self._observer = observer
        loop = asyncio.get_running_loop()
        self._event_thread = threading.Thread(
            target=self._follow_events, args=(loop,), name="tfm-engine-events", daemon=True
        )
        self._event_thread.start()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._has_looked.wait(), _FIRST_LOOK_SECONDS)

    async def find(self, container: str) -> Found:
        """Return a container.

        Args:
            container: Name, id, or prefix of the id.

        Raises:
            Refusal: There is no such container, it does not belong to this controller, its
                labels are invalid, or no engine answers.
        """
        try:
            attributes = await self._in_thread(partial(self._engine.inspect, container))
        except NoSuchContainerError:
            raise Refusal(404, f"there is no container {quoted(container)}") from None
        except EngineRefusedError as error:
            raise Refusal(409, f"the container engine refuses: {error}") from None
        except EngineGoneError as error:
            raise Refusal(503, str(error)) from None
        if not labels.is_ours(attributes["Config"].get("Labels") or {}, self._socket):
            raise engine.refusal(container)
        return engine.found(attributes)

    def container(self, info: ContainerInfo, changed: Callable[[], None]) -> Container:
        """Return an object that controls a container.

        Args:
            info: The container.
            changed: Called when the container may have reached its wanted state.
        """
        loop = asyncio.get_running_loop()
        refused = partial(self._tell, loop, info.id)
        driver = Driver(self._engine, info, self._in_thread, changed, refused)
        self._drivers.add(driver)
        return driver

    async def close(self) -> None:
        """Finish pending commands if possible, and stop."""
        self._over.set()
        busy = [driver.done() for driver in self._drivers if driver.is_busy]
        if busy:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.gather(*busy), _CLOSING_SECONDS)
        self._hang_up()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, function: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    # The following methods run in threads: the event thread, or one for calls.

    def _follow_events(self, loop: asyncio.AbstractEventLoop) -> None:
        # On a host without an engine, its absence is no news; the loss of one that was there is.
        is_expected, warned = "DOCKER_HOST" in os.environ, False
        while not self._over.is_set():
            try:
                self._events = self._engine.events()
                is_expected = True
                # Read all containers only now: later changes are in the stream.
                self._look(loop)
                self._post(loop, self._has_looked.set)
                warned = False
                for event in self._events:
                    if self._over.is_set():
                        return
                    actor = event["Actor"]
                    if event["Action"] in _WATCHED_EVENTS and labels.JOB in actor["Attributes"]:
                        self._tell(loop, actor["ID"])
            except (EngineGoneError, EngineRefusedError) as error:
                if is_expected and not warned and self._has_looked.is_set():
                    _log.warning("%s", error)
                    warned = True
            except Exception:
                # The stream broke; the SDK raises various errors in this case.
                _log.debug("the engine's events have ended", exc_info=True)
            if not self._has_looked.is_set():  # Otherwise the loop would be woken up in vain.
                self._post(loop, self._has_looked.set)
            self._hang_up()
            self._over.wait(_RETRY_SECONDS)

    def _hang_up(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            with suppress(Exception):
                events.close()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        ids = self._engine.list_ids()
        for container in ids:
            self._tell(loop, container)
        assert self._observer is not None
        self._post(loop, partial(self._observer.all_seen, frozenset(ids)))

    def _tell(self, loop: asyncio.AbstractEventLoop, container: str) -> None:
        assert self._observer is not None
        try:
            attributes = self._engine.inspect(container)
        except NoSuchContainerError:
            self._post(loop, partial(self._observer.gone, container))
            return
        if not labels.is_ours(attributes["Config"].get("Labels") or {}, self._socket):
            return
        try:
            self._post(loop, partial(self._observer.seen, engine.found(attributes)))
        except Refusal as refusal:
            if attributes["State"]["Status"] in ("created", "running"):
                _log.warning("%s", refusal.sentence)

    @staticmethod
    def _post(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # The loop is closed.
            loop.call_soon_threadsafe(call)
